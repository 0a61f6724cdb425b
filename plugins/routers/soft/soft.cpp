// Learned linear gate, all experts: every token runs every expert, weighted.
//
//   w = softmax(x·Gᵀ)        over all N experts; G [N, d], Normal(0, 0.02²)
//
// The weights sum to 1, so experts that are copies of a dense layer compute what that layer computed. Of attention experts the
// gate is that of the query's token. Zhang et al.: BAM, NeurIPS 2024, section 3 ("soft routing").
#include <ATen/ATen.h>

#include "moiety/router.h"

namespace {

using namespace moiety;

class Soft final : public Router {
 public:
  RouterCost cost(const Site& site) const override {
    return {static_cast<double>(site.experts), static_cast<double>(site.experts * site.width)};
  }
  /// All experts run for every token, so the gate counts as active: it is not one of `of_experts()`.
  void bind(const Site& site, Parameters& parameters, const Bank&) override {
    gate_ = parameters.add(spec("gate", {site.experts, site.width}).normal(0.02));
  }
  Routing route(const RouterInput& input) const override {
    Routing routing;
    routing.weights = input.hidden.flatten(0, 1).to(gate_->scalar_type()).matmul(gate_->t()).softmax(1);
    return routing;
  }

 private:
  Weight gate_;
};

}  // namespace

MOIETY_PLUGIN("soft", "1.0.0", "Soft routing over all experts",
              component<Soft>("soft", 1, "Linear gate, softmax, all experts", "Zhang et al., BAM, NeurIPS 2024, section 3"));
