// EMoE's router: an expert's score is its mean pre-activation, and a chosen expert counts fully.
//
//   G_i = (1/s) Σ_{j in expert i} key_j      keys: raw rows of the first matrix; G follows them after every step
//   g_i(x) = G_i·x                           signed, without bias
//   y = Σ_{i in the k largest} FFN_i(x)      each with weight exactly 1, so that the gate gets no gradient
//   balance = N·Σ_i f_i·P_i                  f_i: share of the places that expert i got, P_i: mean of softmax(g)_i; its gradient
//   goes
//                                            into the keys and into what the token is (Switch: Fedus et al., JMLR 2022, eq. 4)
//
// Controls: the k worst, all but the k best, k at random for every token, k at random once and for all.
//
// Qiu, Huang, Fu: "Unlocking Emergent Modularity in Large Language Models" (EMoE), NAACL 2024, section 3.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "moiety/router.h"
#include "moiety/select.h"

namespace {

using namespace moiety;

MOIETY_CHOICE(Rule, top, bottom, not_top, random, fixed);

class AvgK final : public Router {
 public:
  struct Options {
    std::int64_t k;
    Rule rule;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::k>("k", 2, "experts chosen for a token").at_least(1).in("experts"),
      param<&Options::rule>("rule", Rule::top,
                            "the k best; controls: the k worst, all but the k best, k at random, the same k at random always")};
  static constexpr Output outputs[] = {loss("balance", 0, "even use of the experts: N Σ share · mean probability, 1 at best")};

  explicit AvgK(const Options& options) : options_(options) {}

  void check(const Facts& facts, Problems& problems) const override {
    if (facts.site != nullptr && facts.site->experts > 0) refuse(facts.site->experts, problems);
  }
  RouterCost cost(const Site& site) const override {
    return {static_cast<double>(run(site.experts)), static_cast<double>(site.experts * site.width)};
  }
  void bind(const Site& site, Parameters& parameters_of_site, const Bank& bank) override {
    Problems problems;
    refuse(site.experts, problems);
    if (!problems.list().empty()) throw std::invalid_argument("k " + problems.list()[0].message);
    bank_ = &bank;
    means_ = parameters_of_site.add(spec("means", {site.experts, site.width}).fixed().without_decay().of_experts());
  }
  void prepare(const Activations*, Random random) override {
    follow_keys();
    if (options_.rule != Rule::fixed) return;
    std::vector<std::int64_t> all(static_cast<std::size_t>(means_->size(0)));
    std::iota(all.begin(), all.end(), 0);
    draw_to_front(all, random);
    fixed_.assign(all.begin(), all.begin() + options_.k);
    std::sort(fixed_.begin(), fixed_.end());
  }
  void after_step(const Observed&) override { follow_keys(); }
  void state(Archive& archive) override {
    if (options_.rule == Rule::fixed) archive("fixed", fixed_);
  }

  Routing route(const RouterInput& input) const override {
    const at::Tensor rows = input.hidden.flatten(0, 1).to(at::kFloat);
    Routing routing;
    {
      const at::NoGradGuard no_grad;
      routing.experts = chosen(rows.detach().matmul(means_->t()), input.random);
    }
    if (input.wants_losses) add_balance(rows, input.mask, routing);
    return routing;
  }

 private:
  std::int64_t run(std::int64_t experts) const { return options_.rule == Rule::not_top ? experts - options_.k : options_.k; }
  void refuse(std::int64_t experts, Problems& problems) const {
    if (options_.k > experts) {
      problems.add("k", "is " + std::to_string(options_.k) + ", but there are " + std::to_string(experts) + " experts");
    } else if (run(experts) < 1) {
      problems.add("k", "is all " + std::to_string(experts) + " experts, so that none is left to run with rule not-top");
    }
  }
  at::Tensor chosen(const at::Tensor& scores, Random random) const {
    const std::int64_t rows = scores.size(0), experts = scores.size(1), k = options_.k;
    if (options_.rule == Rule::top || options_.rule == Rule::bottom) return best_of_rows(scores, k, options_.rule == Rule::top);
    if (options_.rule == Rule::not_top) return best_of_rows(scores, experts).narrow(1, k, experts - k).contiguous();
    if (options_.rule == Rule::fixed) {
      if (static_cast<std::int64_t>(fixed_.size()) != k) throw std::logic_error("route before prepare");
      return at::tensor(fixed_, at::kLong).expand({rows, k}).contiguous();
    }
    at::Tensor drawn = at::empty({rows, k}, at::kLong);
    std::vector<std::int64_t> all(static_cast<std::size_t>(experts));
    std::iota(all.begin(), all.end(), 0);
    for (std::int64_t row = 0; row < rows; ++row) {
      draw_to_front(all, random);
      std::copy_n(all.begin(), k, drawn.data_ptr<std::int64_t>() + row * k);
    }
    return drawn;
  }
  /// k of all, any of them equally likely.
  void draw_to_front(std::vector<std::int64_t>& all, Random& random) const {
    for (std::int64_t i = 0; i < options_.k; ++i)
      std::swap(all[static_cast<std::size_t>(i)],
                all[static_cast<std::size_t>(i + random.below(static_cast<std::int64_t>(all.size()) - i))]);
  }
  /// Padding neither counts as use nor is it asked to be even.
  void add_balance(const at::Tensor& rows, const at::Tensor& mask, Routing& routing) const {
    const at::Tensor probabilities = rows.matmul(bank_->keys().mean(1).t()).softmax(1);
    const at::Tensor used = at::zeros_like(probabilities.detach()).scatter(1, routing.experts, 1.0);
    const at::Tensor real = mask.defined() ? mask.flatten().to(at::kFloat).unsqueeze(1) : at::ones({rows.size(0), 1});
    const at::Tensor count = real.sum().clamp_min(1);
    const at::Tensor share = (used * real).sum(0) / count / static_cast<double>(routing.experts.size(1));
    routing.losses.emplace_back(
        "balance", (share * (probabilities * real).sum(0) / count).sum() * static_cast<double>(probabilities.size(1)));
  }
  void follow_keys() {
    const at::NoGradGuard no_grad;
    means_->copy_(bank_->keys().detach().mean(1));
  }

  Options options_;
  const Bank* bank_ = nullptr;
  Weight means_;
  std::vector<std::int64_t> fixed_;  ///< of rule = fixed
};

}  // namespace

MOIETY_PLUGIN("avg-k", "1.0.0", "EMoE's routing by mean keys",
              component<AvgK>("avg-k", 1, "The k experts whose mean key fits a token best, weight exactly 1",
                              "Qiu et al., EMoE, NAACL 2024, section 3"));
