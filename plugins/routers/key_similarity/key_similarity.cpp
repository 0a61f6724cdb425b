// Scores of the experts by how near their mean key is to a token, for routers that choose by scores (top-k). Nothing is trained.
//
//   v_i = (1/s) Σ_{j in expert i} key_j/‖key_j‖;   score_i = −‖x/‖x‖ − v_i‖        v follows the keys after every step
//
// Zhang et al.: "MoEfication", Findings of ACL 2022, section 3.3; avg-k is a close relative.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "moiety/router.h"

namespace {

using namespace moiety;

at::Tensor units(const at::Tensor& x) { return x / x.norm(2, {-1}, /*keepdim=*/true).clamp_min(1e-12); }

class KeySimilarity final : public Router {
 public:
  RouterCost cost(const Site& site) const override {
    return {static_cast<double>(site.experts), static_cast<double>(site.experts * site.width)};
  }
  void bind(const Site& site, Parameters& parameters, const Bank& bank) override {
    bank_ = &bank;
    means_ = parameters.add(spec("means", {site.experts, site.width}).fixed().without_decay().of_experts());
  }
  void prepare(const Activations*, Random) override { follow_keys(); }
  void after_step(const Observed&) override { follow_keys(); }

  Routing route(const RouterInput& input) const override {
    const at::NoGradGuard no_gradient;
    const at::Tensor x = units(input.hidden.detach().flatten(0, 1).to(means_->scalar_type()));
    Routing routing;
    routing.weights =
        -(x.square().sum(1, /*keepdim=*/true) + means_->square().sum(1) - x.matmul(means_->t()) * 2).clamp_min(0).sqrt();
    return routing;
  }

 private:
  void follow_keys() {
    const at::NoGradGuard no_gradient;
    means_->copy_(units(bank_->keys().detach()).mean(1));
  }

  const Bank* bank_ = nullptr;
  Weight means_;
};

}  // namespace

MOIETY_PLUGIN("key-similarity", "1.0.0", "Scores of experts by their keys",
              component<KeySimilarity>("key-similarity", 1,
                                       "Scores for top-k: how near a token is to the mean key of each expert",
                                       "Zhang et al., MoEfication, Findings of ACL 2022, section 3.3"));
