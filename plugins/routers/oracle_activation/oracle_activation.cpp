// Scores of the experts by what their neurons really do, for routers that choose by scores (top-k): the upper bound for scores
// that are cheap.
//
//   score_i = Σ_{j in expert i} max(0, key_j·x + b_j)        keys and biases read in place
//
// It computes the whole first matrix, so it saves nothing. Zhang et al.: "MoEfication", Findings of ACL 2022, section 3.3
// ("groundtruth"); the activation is taken to be ReLU, whatever the model's.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <stdexcept>

#include "moiety/router.h"

namespace {

using namespace moiety;

class OracleActivation final : public Router {
 public:
  void check(const Facts& facts, Problems& problems) const override {
    if (facts.site != nullptr && facts.site->place != Place::feed_forward)
      problems.add("", "scores neurons of feed-forwards alone");
  }
  /// As for experts that are parts of one feed-forward.
  RouterCost cost(const Site& site) const override {
    return {static_cast<double>(site.experts), static_cast<double>(site.inner * site.width)};
  }
  void bind(const Site&, Parameters&, const Bank& bank) override { bank_ = &bank; }

  Routing route(const RouterInput& input) const override {
    const at::NoGradGuard no_gradient;
    const at::Tensor keys = bank_->weight("in").detach();
    at::Tensor neurons = input.hidden.detach().flatten(0, 1).to(keys.scalar_type()).matmul(keys.flatten(0, 1).t());
    if (bank_->has("in_bias")) neurons = neurons + bank_->weight("in_bias").detach().flatten();
    Routing routing;
    routing.weights = neurons.relu().view({neurons.size(0), keys.size(0), keys.size(1)}).sum(2);
    return routing;
  }

 private:
  const Bank* bank_ = nullptr;
};

}  // namespace

MOIETY_PLUGIN("oracle-activation", "1.0.0", "Scores of experts by their activations",
              component<OracleActivation>("oracle-activation", 1,
                                          "Scores for top-k: the positive activations of each expert's neurons",
                                          "Zhang et al., MoEfication, Findings of ACL 2022, section 3.3"));
