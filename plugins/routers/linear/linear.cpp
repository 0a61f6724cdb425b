// Linear scores of the experts, for routers that choose by scores (top-k); by itself its scores are the weights of all experts.
//
//   l = x·Gᵀ        G [N, d]: Normal(0, 0.02²), or the mean key of each expert
//
// init = keys is EMoE's learned gate with a known start: it begins as avg-k and then trains. Qiu, Huang, Fu: EMoE, NAACL 2024
// (EMoE-learn); Shazeer et al., ICLR 2017.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "moiety/router.h"

namespace {

using namespace moiety;

MOIETY_CHOICE(Init, normal, keys);

class Linear final : public Router {
 public:
  struct Options {
    Init init;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::init>("init", Init::normal, "how the gate starts: small random numbers, or the mean key of each expert")};

  explicit Linear(const Options& options) : options_(options) {}

  RouterCost cost(const Site& site) const override {
    return {static_cast<double>(site.experts), static_cast<double>(site.experts * site.width)};
  }
  void bind(const Site& site, Parameters& parameters_of_site, const Bank& bank) override {
    bank_ = &bank;
    gate_ = parameters_of_site.add(spec("gate", {site.experts, site.width}).normal(0.02).of_experts());
  }
  void prepare(const Activations*, Random) override {
    if (options_.init != Init::keys) return;
    const at::NoGradGuard no_gradient;
    gate_->copy_(bank_->keys().detach().mean(1));
  }
  Routing route(const RouterInput& input) const override {
    Routing routing;
    routing.weights = input.hidden.flatten(0, 1).to(gate_->scalar_type()).matmul(gate_->t());
    return routing;
  }

 private:
  Options options_;
  const Bank* bank_ = nullptr;
  Weight gate_;
};

}  // namespace

MOIETY_PLUGIN("linear", "1.0.0", "Linear scores of experts",
              component<Linear>("linear", 1, "Scores for top-k: a linear gate", "Shazeer et al., ICLR 2017"));
