// Experts choose tokens: each takes the rows that fit it best, so all do the same work.
//
//   p = softmax(x·Gᵀ) over the N experts;  C = ⌈capacity_factor · R / N⌉ of the R rows at hand
//   expert i runs the C rows with the largest p_i, each weighted by p_i (of equal ones the lower row)
//
// A row may have any number of experts, also none: the metric `unrouted`. Who is chosen depends on the other rows, later ones
// too, so the loss of a causal model is that of text read as a whole, not of text being written. Padding is neither counted nor
// chosen. Zhou et al.: "Mixture-of-Experts with Expert Choice Routing", NeurIPS 2022, section 3.2.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "moiety/router.h"
#include "moiety/select.h"

namespace {

using namespace moiety;

class ExpertChoice final : public Router {
 public:
  struct Options {
    double capacity_factor;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::capacity_factor>("capacity_factor", 2.0, "experts that a token has on average").above(0).in("experts")};
  static constexpr Output outputs[] = {metric("unrouted", "fraction", -1, "tokens that no expert chose")};

  explicit ExpertChoice(const Options& options) : options_(options) {}

  void check(const Facts& facts, Problems& problems) const override {
    if (facts.site != nullptr && facts.site->experts > 0 && options_.capacity_factor > static_cast<double>(facts.site->experts))
      problems.add("capacity_factor", "is more than the " + std::to_string(facts.site->experts) + " experts that there are");
  }
  RouterCost cost(const Site& site) const override {
    return {std::min(options_.capacity_factor, static_cast<double>(site.experts)),
            static_cast<double>(site.experts * site.width)};
  }
  void bind(const Site& site, Parameters& parameters_of_site, const Bank&) override {
    gate_ = parameters_of_site.add(spec("gate", {site.experts, site.width}).normal(0.02).of_experts());
  }

  Routing route(const RouterInput& input) const override {
    Routing routing;
    routing.weights = input.hidden.flatten(0, 1).to(gate_->scalar_type()).matmul(gate_->t()).softmax(1);
    const std::int64_t rows = routing.weights.size(0), experts = routing.weights.size(1);
    at::Tensor scores = routing.weights.detach().t();
    std::int64_t real = rows;
    if (input.mask.defined()) {
      const at::Tensor mask = input.mask.flatten().to(at::kBool);
      real = mask.sum().item().toLong();
      scores = scores.masked_fill(mask.logical_not(), -std::numeric_limits<double>::infinity());
    }
    const double places = options_.capacity_factor * static_cast<double>(real) / static_cast<double>(experts);
    const std::int64_t capacity = std::min(real, static_cast<std::int64_t>(std::ceil(places)));
    const at::Tensor taken =
        at::zeros({experts, rows}, scores.options().dtype(at::kBool)).scatter(1, best_of_rows(scores, capacity), true).t();
    const at::Tensor numbers = at::arange(experts, taken.options().dtype(at::kLong)).expand({rows, experts});
    routing.experts = numbers.masked_fill(taken.logical_not(), -1);
    const double routed = static_cast<double>(taken.any(1).sum().item().toLong());
    routing.metrics.emplace_back("unrouted",
                                 at::scalar_tensor(real > 0 ? 1 - routed / static_cast<double>(real) : 0.0, scores.options()));
    return routing;
  }

 private:
  Options options_;
  Weight gate_;
};

}  // namespace

MOIETY_PLUGIN("expert-choice", "1.0.0", "Experts choose tokens",
              component<ExpertChoice>("expert-choice", 1, "Each expert takes the tokens that fit it best",
                                      "Zhou et al., Expert Choice Routing, NeurIPS 2022, section 3.2"));
