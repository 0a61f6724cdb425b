// Copies a dense feed-forward into each expert: all experts start equal.
//
//   in[n] = In, in_bias[n] = b, out[n] = Out, out_bias[n] = c      for n = 1 … N
//
// With routing weights that sum to 1 the new site computes what the dense layer computed. Komatsuzaki et al.: "Sparse Upcycling",
// ICLR 2023; CSE expands its modules in the same way, one copy a cluster that its router found.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "moiety/expert_constructor.h"

namespace {

using namespace moiety;

class Copy final : public ExpertConstructor {
 public:
  struct Options {
    std::int64_t count;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::count>("count", 0, "experts; 0: as many as the router finds").range(0, 100000).in("experts")};

  explicit Copy(const Options& options) : options_(options) {}

  void check(const Facts& facts, Problems& problems) const override {
    if (facts.sources > 1) problems.add("", "copies one model, but " + std::to_string(facts.sources) + " are read");
  }
  std::int64_t count(const Facts&) const override { return options_.count; }
  void plan(const Sources&, const Site&, const Activations*, Random) override {}
  void bind(const Site& site, Parameters& to) override {
    const std::int64_t n = site.experts, f = site.inner, d = site.width;
    to.add(spec("in", {n, f, d}).of_experts());
    to.add(spec("in_bias", {n, f}).of_experts().without_decay());
    to.add(spec("out", {n, d, f}).of_experts());
    to.add(spec("out_bias", {n, d}).of_experts().without_decay());
  }
  TensorMap expand(const Sources& sources, const Site& site) const override {
    const TensorMap& dense = sources.at(0);
    const auto copies = [&](const char* role, std::vector<std::int64_t> shape) {
      const auto found = dense.find(role);
      const at::Tensor one = found != dense.end() ? found->second.detach() : at::zeros(shape, dense.at("in").options());
      shape.insert(shape.begin(), site.experts);
      return one.unsqueeze(0).expand(shape).contiguous();
    };
    return {{"in", copies("in", {site.inner, site.width})},
            {"in_bias", copies("in_bias", {site.inner})},
            {"out", copies("out", {site.width, site.inner})},
            {"out_bias", copies("out_bias", {site.width})}};
  }

 private:
  Options options_;
};

}  // namespace

MOIETY_PLUGIN("copy", "1.0.0", "Experts that start as copies of one feed-forward",
              component<Copy>("copy", 1, "Copies a feed-forward into every expert",
                              "Komatsuzaki et al., Sparse Upcycling, ICLR 2023"));
