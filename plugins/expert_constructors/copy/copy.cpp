// Copies a dense layer, feed-forward or attention, into each expert: all experts start equal.
//
//   in[n] = In, in_bias[n] = b, out[n] = Out, out_bias[n] = c      n = 1 … N; of attention q, k, v, o and their biases
//
// With routing weights that sum to 1 the new site computes what the dense layer computed. A model that starts fresh has nothing
// to copy: its experts get the starts of a dense layer, independent of one another. Komatsuzaki et al.: "Sparse Upcycling", ICLR
// 2023; CSE expands its modules in the same way, one copy a cluster that its router found.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "moiety/expert_constructor.h"

namespace {

using namespace moiety;

struct Role {
  const char* name;
  std::vector<std::int64_t> shape;
  double deviation;
};

/// The roles of a dense layer, with the deviations that they start with.
std::vector<Role> roles_of(const Site& site) {
  const std::int64_t f = site.inner, d = site.width;
  const double sd = 0.02, residual_sd = sd / std::sqrt(2.0 * static_cast<double>(std::max<std::int64_t>(1, site.layers)));
  if (site.place == Place::attention)
    return {{"q", {d, d}, sd}, {"q_bias", {d}, 0}, {"k", {d, d}, sd},          {"k_bias", {d}, 0},
            {"v", {d, d}, sd}, {"v_bias", {d}, 0}, {"o", {d, d}, residual_sd}, {"o_bias", {d}, 0}};
  return {{"in", {f, d}, sd}, {"in_bias", {f}, 0}, {"out", {d, f}, residual_sd}, {"out_bias", {d}, 0}};
}

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
  Layout bind(const Site& site, Parameters& to) override {
    for (const Role& role : roles_of(site)) {
      Spec one = spec(role.name, with_experts(site, role)).normal(role.deviation).of_experts();
      one.decays = role.shape.size() > 1;
      to.add(std::move(one));
    }
    return {};
  }
  TensorMap expand(const Sources& sources, const Site& site) const override {
    TensorMap bank;
    if (sources.empty()) return bank;
    const TensorMap& dense = sources[0];
    const at::TensorOptions options = dense.at(site.place == Place::attention ? "q" : "in").options();
    for (const Role& role : roles_of(site)) {
      const auto found = dense.find(role.name);
      const at::Tensor one = found != dense.end() ? found->second.detach() : at::zeros(role.shape, options);
      bank[role.name] = one.unsqueeze(0).expand(with_experts(site, role)).contiguous();
    }
    return bank;
  }
  bool keeps_moments() const override { return true; }

 private:
  static std::vector<std::int64_t> with_experts(const Site& site, const Role& role) {
    std::vector<std::int64_t> shape = role.shape;
    shape.insert(shape.begin(), site.experts);
    return shape;
  }

  Options options_;
};

}  // namespace

MOIETY_PLUGIN("copy", "1.1.0", "Experts that start as copies of one dense layer",
              component<Copy>("copy", 1, "Copies a feed-forward or an attention into every expert",
                              "Komatsuzaki et al., Sparse Upcycling, ICLR 2023"));
