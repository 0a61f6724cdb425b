// The k experts that score best for a token.
//
//   l = score(x)                   of all N experts: a part, by default a linear gate
//   p = softmax(l)                 over all N experts
//   gate = softmax           weights p_i of the k chosen              Switch: Fedus et al., JMLR 2022; GShard
//   gate = renormalised      softmax of the k chosen scores, sum 1    Shazeer et al., ICLR 2017; Mixtral
//   gate = one               weight exactly 1, no gradient            MoEfication: Zhang et al., Findings of ACL 2022
//   gate = straight-through  weight 1 with the gradient of p_i        keeps what experts split from a layer compute together
//   balance = N·Σ_i f_i·P_i        f_i: share of the places that expert i got, P_i: mean p_i (Switch, eq. 4; 1 when even)
//   z       = mean (logsumexp l)²  keeps scores small (ST-MoE: Zoph et al., 2022, eq. 5)
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "moiety/router.h"
#include "moiety/select.h"

namespace {

using namespace moiety;

MOIETY_CHOICE(Gate, softmax, renormalised, one, straight_through);

class TopK final : public Router {
 public:
  struct Options {
    std::int64_t k;
    std::optional<double> active;
    Gate gate;
    std::shared_ptr<Router> score;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::k>("k", 2, "experts a token runs, unless `active` says it").at_least(1).in("experts"),
      optional<&Options::active>("active", "share of the experts that a token runs, to the nearest number and at least one")
          .above(0)
          .at_most(1),
      param<&Options::gate>("gate", Gate::softmax,
                            "weights: probabilities over all experts, or over the chosen ones alone, or 1, without or with the "
                            "gradient of the probability"),
      param<&Options::score>("score", "linear", "how well an expert fits a token: a router that gives every expert a number")};
  static constexpr Output outputs[] = {loss("balance", 0, "even use of the experts: N Σ share · mean probability, 1 at best"),
                                       loss("z", 0, "mean squared log-sum-exp of the scores")};

  explicit TopK(Options options) : options_(std::move(options)) {}

  Needs needs() const override { return options_.score->needs(); }
  void check(const Facts& facts, Problems& problems) const override {
    if (facts.site != nullptr && facts.site->experts > 0 && run(facts.site->experts) > facts.site->experts) {
      problems.add("k",
                   "is " + std::to_string(options_.k) + ", but there are " + std::to_string(facts.site->experts) + " experts");
    }
    if (options_.score->finds_experts()) problems.add("score", "finds experts of its own, so it cannot score given ones");
  }
  RouterCost cost(const Site& site) const override {
    return {static_cast<double>(run(site.experts)), options_.score->cost(site).multiply_adds};
  }
  Rows rows() const override { return options_.score->rows(); }
  void bind(const Site& site, Parameters& parameters_of_site, const Bank& bank) override {
    experts_ = site.experts;
    if (run(experts_) > experts_) throw std::invalid_argument("k is larger than the number of experts");
    options_.score->bind(site, parameters_of_site, bank);
  }
  void prepare(const Activations* activations, Random random) override {
    options_.score->prepare(activations, random.fork("score"));
  }
  void after_step(const Observed& observed) override { options_.score->after_step(observed); }

  Routing route(const RouterInput& input) const override {
    const Routing scored = options_.score->route(input);
    const at::Tensor& scores = scored.weights;
    if (scored.experts.defined() || !scores.defined() || scores.dim() != 2 || scores.size(1) != experts_)
      throw std::invalid_argument("score does not give a number for every expert");
    const std::int64_t k = run(experts_);
    const at::Tensor probabilities = scores.softmax(1);
    Routing routing;
    routing.experts = best_of_rows(scores, k);
    routing.observed = scored.observed;
    if (options_.gate == Gate::renormalised)
      routing.weights = scores.gather(1, routing.experts).softmax(1);
    else if (options_.gate != Gate::one)
      routing.weights = probabilities.gather(1, routing.experts);
    // p − p is exactly 0, so the value is exactly 1.
    if (options_.gate == Gate::straight_through) routing.weights = routing.weights - routing.weights.detach() + 1;
    if (input.wants_losses) add_losses(input.mask, scores, probabilities, routing);
    return routing;
  }

 private:
  std::int64_t run(std::int64_t experts) const {
    if (!options_.active) return options_.k;
    return std::max<std::int64_t>(1, std::llround(*options_.active * static_cast<double>(experts)));
  }
  void add_losses(const at::Tensor& mask, const at::Tensor& scores, const at::Tensor& probabilities, Routing& routing) const {
    // Padding neither counts as use nor is it asked to be even. Rows are sequences or, as the mask, tokens.
    const bool by_token = options_.score->rows() == Rows::token;
    const at::Tensor real = mask.defined() && by_token ? mask.flatten().to(scores.scalar_type()).unsqueeze(1) : at::Tensor();
    const auto mean_of_rows = [&](const at::Tensor& rows) {
      return real.defined() ? (rows * real).sum(0) / real.sum().clamp_min(1) : rows.mean(0);
    };
    const at::Tensor used = at::zeros_like(scores.detach()).scatter(1, routing.experts, 1.0);
    const at::Tensor share = mean_of_rows(used) / static_cast<double>(routing.experts.size(1));
    const auto experts = static_cast<double>(experts_);
    routing.losses.emplace_back("balance", (share * mean_of_rows(probabilities)).sum() * experts);
    routing.losses.emplace_back("z", mean_of_rows(scores.logsumexp(1, /*keepdim=*/true).square()).sum());
  }

  Options options_;
  std::int64_t experts_ = 0;
};

}  // namespace

MOIETY_PLUGIN("top-k", "1.1.0", "Top-k routing",
              component<TopK>("top-k", 1, "The k experts that score best, by a linear gate or another score",
                              "Fedus et al., Switch Transformers, JMLR 2022"));
