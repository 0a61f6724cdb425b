// All experts, each with weight 1/N, whatever the token: the control that tells what a learned gate adds. No tensors, no
// gradient.
#include <ATen/ATen.h>

#include "moiety/router.h"

namespace {

using namespace moiety;

class Uniform final : public Router {
 public:
  RouterCost cost(const Site& site) const override { return {static_cast<double>(site.experts), 0}; }
  void bind(const Site& site, Parameters&, const Bank&) override { experts_ = site.experts; }
  Routing route(const RouterInput& input) const override {
    Routing routing;
    routing.weights = at::full({input.hidden.size(0) * input.hidden.size(1), experts_}, 1.0 / static_cast<double>(experts_),
                               input.hidden.options().requires_grad(false));
    return routing;
  }

 private:
  std::int64_t experts_ = 1;
};

}  // namespace

MOIETY_PLUGIN("uniform", "1.0.0", "All experts with equal weight",
              component<Uniform>("uniform", 1, "All experts, each with weight 1/N"));
