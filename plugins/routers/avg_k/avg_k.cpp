// EMoE's router: an expert's score is its mean pre-activation, and a chosen expert counts fully.
//
//   G_i = (1/s) Σ_{j in expert i} key_j      keys: raw rows of the first matrix; G follows them after every step
//   g_i(x) = G_i·x                           signed, without bias
//   y = Σ_{i in the k largest} FFN_i(x)      each with weight exactly 1, so that the gate gets no gradient
//
// Qiu, Huang, Fu: "Unlocking Emergent Modularity in Large Language Models" (EMoE), NAACL 2024, section 3.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <stdexcept>

#include "moiety/router.h"
#include "moiety/select.h"

namespace {

using namespace moiety;

MOIETY_CHOICE(Rule, top, bottom, not_top);

class AvgK final : public Router {
 public:
  struct Options {
    std::int64_t k;
    Rule rule;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::k>("k", 2, "experts chosen for a token").at_least(1).in("experts"),
      param<&Options::rule>("rule", Rule::top, "the k best, the k worst, or all but the k best (controls)")};

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
  void prepare(const Activations*, Random) override { follow_keys(); }
  void after_step(const Observed&) override { follow_keys(); }

  Routing route(const RouterInput& input) const override {
    const at::NoGradGuard no_grad;
    const at::Tensor scores = input.hidden.detach().flatten(0, 1).to(at::kFloat).matmul(means_->t());
    const std::int64_t experts = scores.size(1);
    Routing routing;
    routing.experts = options_.rule == Rule::not_top
                          ? best_of_rows(scores, experts).narrow(1, options_.k, run(experts)).contiguous()
                          : best_of_rows(scores, options_.k, options_.rule == Rule::top);
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
  void follow_keys() {
    const at::NoGradGuard no_grad;
    means_->copy_(bank_->keys().detach().mean(1));
  }

  Options options_;
  const Bank* bank_ = nullptr;
  Weight means_;
};

}  // namespace

MOIETY_PLUGIN("avg-k", "1.0.0", "EMoE's routing by mean keys",
              component<AvgK>("avg-k", 1, "The k experts whose mean key fits a token best, weight exactly 1",
                              "Qiu et al., EMoE, NAACL 2024, section 3"));
