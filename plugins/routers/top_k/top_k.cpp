// Learned linear gate, the k best experts a token.
//
//   l = x·Gᵀ, p = softmax(l)       over all N experts
//   gate = softmax       weights p_i of the k chosen              Switch: Fedus et al., JMLR 2022; GShard
//   gate = renormalised  softmax of the k chosen logits, sum 1    Shazeer et al., ICLR 2017; Mixtral
//   balance = N·Σ_i f_i·P_i        f_i: share of the places that expert i got, P_i: mean p_i (Switch, eq. 4; 1 when even)
//   z       = mean (logsumexp l)²  keeps logits small (ST-MoE: Zoph et al., 2022, eq. 5)
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>

#include <stdexcept>

#include "moiety/router.h"
#include "moiety/select.h"

namespace {

using namespace moiety;

MOIETY_CHOICE(Gate, softmax, renormalised);

class TopK final : public Router {
 public:
  struct Options {
    std::int64_t k;
    Gate gate;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::k>("k", 2, "experts a token runs").at_least(1).in("experts"),
      param<&Options::gate>("gate", Gate::softmax, "weights: probabilities over all experts, or over the chosen ones alone")};
  static constexpr Output outputs[] = {loss("balance", 0, "even use of the experts: N Σ share · mean probability, 1 at best"),
                                       loss("z", 0, "mean squared log-sum-exp of the logits")};

  explicit TopK(const Options& options) : options_(options) {}

  void check(const Facts& facts, Problems& problems) const override {
    if (facts.site != nullptr && facts.site->experts > 0 && options_.k > facts.site->experts) {
      problems.add("k",
                   "is " + std::to_string(options_.k) + ", but there are " + std::to_string(facts.site->experts) + " experts");
    }
  }
  RouterCost cost(const Site& site) const override {
    return {static_cast<double>(options_.k), static_cast<double>(site.experts * site.width)};
  }
  void bind(const Site& site, Parameters& parameters_of_site, const Bank&) override {
    if (options_.k > site.experts) throw std::invalid_argument("k is larger than the number of experts");
    gate_ = parameters_of_site.add(spec("gate", {site.experts, site.width}).normal(0.02).of_experts());
  }

  Routing route(const RouterInput& input) const override {
    const at::Tensor logits = input.hidden.flatten(0, 1).to(at::kFloat).matmul(gate_->t());
    const at::Tensor probabilities = logits.softmax(1);
    Routing routing;
    routing.experts = best_of_rows(logits, options_.k);
    routing.weights =
        options_.gate == Gate::softmax ? probabilities.gather(1, routing.experts) : logits.gather(1, routing.experts).softmax(1);
    if (input.training) add_losses(input.mask, logits, probabilities, routing);
    return routing;
  }

 private:
  void add_losses(const at::Tensor& mask, const at::Tensor& logits, const at::Tensor& probabilities, Routing& routing) const {
    // Padding neither counts as use nor is it asked to be even.
    const at::Tensor real = mask.defined() ? mask.flatten().to(at::kFloat).unsqueeze(1) : at::Tensor();
    const auto mean_of_rows = [&](const at::Tensor& rows) {
      return real.defined() ? (rows * real).sum(0) / real.sum().clamp_min(1) : rows.mean(0);
    };
    const at::Tensor used = at::zeros_like(logits.detach()).scatter(1, routing.experts, 1.0);
    const at::Tensor share = mean_of_rows(used) / static_cast<double>(options_.k);
    const auto experts = static_cast<double>(logits.size(1));
    routing.losses.emplace_back("balance", (share * mean_of_rows(probabilities)).sum() * experts);
    routing.losses.emplace_back("z", mean_of_rows(logits.logsumexp(1, /*keepdim=*/true).square()).sum());
  }

  Options options_;
  Weight gate_;
};

}  // namespace

MOIETY_PLUGIN("top-k", "1.0.0", "Learned top-k routing",
              component<TopK>("top-k", 1, "Linear gate, softmax, the k best experts",
                              "Fedus et al., Switch Transformers, JMLR 2022"));
