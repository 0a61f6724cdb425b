// Copies a dense layer, feed-forward or attention, into each expert: all experts start equal.
//
//   role[n] = the dense layer's, n = 1 … N      in, (up,) out of a feed-forward, q, k, v, o of attention, and their biases
//
// With routing weights that sum to 1 the new site computes what the dense layer computed. A model that starts fresh has nothing
// to copy: its experts get the starts of a dense layer, independent of one another. Komatsuzaki et al.: "Sparse Upcycling", ICLR
// 2023; CSE expands its modules in the same way, one copy a cluster that its router found.
#include <ATen/ATen.h>

#include "../dense_layers.h"
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
  Layout bind(const Site& site, Parameters& to) override {
    for (const Role& role : layer_roles(site)) to.add(constructors::of_experts(role, site.experts));
    return {};
  }
  TensorMap expand(const Sources& sources, const Site& site) const override {
    TensorMap bank;
    if (sources.empty()) return bank;
    for (const Role& role : layer_roles(site))
      bank[role.name] = constructors::read_role(sources[0], role)
                            .unsqueeze(0)
                            .expand(constructors::with_experts(site.experts, role.shape))
                            .contiguous();
    return bank;
  }
  bool keeps_moments() const override { return true; }

 private:
  Options options_;
};

}  // namespace

MOIETY_PLUGIN("copy", "1.1.0", "Experts that start as copies of one dense layer",
              component<Copy>("copy", 1, "Copies a feed-forward or an attention into every expert",
                              "Komatsuzaki et al., Sparse Upcycling, ICLR 2023"));
