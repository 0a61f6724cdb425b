// All experts, each with weight exactly 1: y = Σ_i expert_i(x). What a dense layer is to the experts it was split into; the
// router of experts that were kept when others were pruned. No tensors, no gradient.
#include "moiety/router.h"

namespace {

using namespace moiety;

class All final : public Router {
 public:
  RouterCost cost(const Site& site) const override { return {static_cast<double>(site.experts), 0}; }
  void bind(const Site&, Parameters&, const Bank&) override {}
  Routing route(const RouterInput&) const override { return {}; }
};

}  // namespace

MOIETY_PLUGIN("all", "1.0.0", "All experts, unweighted",
              component<All>("all", 1, "All experts, each with weight exactly 1: their plain sum"));
