#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "moiety_testing/testing.h"

namespace moiety {
namespace {

using testing::make;
using testing::TestBank;
using testing::TestParameters;

constexpr std::int64_t softmax = 0, renormalised = 1, weight_one = 2, straight_through = 3;

/// A linear score that remembers what was asked of it.
class Scores final : public Router {
 public:
  Needs needs() const override { return asks; }
  RouterCost cost(const Site& site) const override { return {0, static_cast<double>(site.experts * site.width)}; }
  Rows rows() const override { return rows_; }
  bool finds_experts() const override { return finds; }
  void bind(const Site& site, Parameters& parameters, const Bank&) override {
    gate = parameters.add(spec("gate", {site.experts, site.width}).normal(0.02).of_experts());
  }
  void prepare(const Activations*, Random) override { ++prepared; }
  void after_step(const Observed& seen) override { observed = seen; }
  Routing route(const RouterInput& input) const override {
    Routing routing;
    routing.weights = (rows_ == Rows::token ? input.hidden.flatten(0, 1) : input.hidden.mean(1)).matmul(gate->t());
    if (chooses) routing.experts = routing.weights.argmax(1, true);
    routing.observed = routing.weights.detach();
    return routing;
  }
  Weight gate;
  Needs asks;
  Rows rows_ = Rows::token;
  bool finds = false, chooses = false;
  int prepared = 0;
  Observed observed;
};

struct Case {
  explicit Case(std::int64_t k, std::int64_t gate = softmax, std::map<std::string, Value> given = {})
      : bank({{"in", testing::normal({4, 2, 3}, Random(1))}}) {
    site.width = 3, site.experts = 4, site.inner = 8;
    given.insert({{"k", k}, {"gate", gate}, {"score", std::shared_ptr<Component>(score)}});
    router = make<Router>("top-k", std::move(given));
    input.hidden = testing::normal({2, 5, 3}, Random(2));
    facts.site = &site;
    if (testing::problems_of(*router, facts).empty()) router->bind(site, parameters, bank);
  }
  std::shared_ptr<Scores> score = std::make_shared<Scores>();
  Site site;
  Facts facts;
  TestParameters parameters;
  TestBank bank;
  std::unique_ptr<Router> router;
  RouterInput input;
};

TEST(TopK, weights_are_the_softmax_of_the_chosen_over_all_experts) {
  Case s(2);
  const Routing r = s.router->route(s.input);
  const at::Tensor p = s.input.hidden.view({10, 3}).matmul(s.parameters.weight("gate").t()).softmax(1);
  const auto [values, experts] = p.topk(2, 1);
  EXPECT_TRUE(at::equal(r.experts, experts));
  EXPECT_TRUE(at::allclose(r.weights, values));
}

TEST(TopK, renormalised_weights_sum_to_one) {
  Case s(3, renormalised), plain(3);
  const Routing r = s.router->route(s.input), all = plain.router->route(s.input);
  EXPECT_TRUE(at::allclose(r.weights.sum(1), at::tensor({1.0F}).expand(10)));
  EXPECT_TRUE(at::allclose(r.weights, all.weights / all.weights.sum(1, true)));
}

TEST(TopK, gradient_reaches_gate_and_input) {
  Case s(2);
  s.input.hidden.requires_grad_();
  s.router->route(s.input).weights.square().sum().backward();
  EXPECT_GT(s.parameters.weight("gate").grad().abs().sum().item().toDouble(), 0);
  EXPECT_GT(s.input.hidden.grad().abs().sum().item().toDouble(), 0);
}

TEST(TopK, equal_logits_choose_the_lower_index) {
  Case s(2);
  s.input.hidden.zero_();
  const Routing r = s.router->route(s.input);
  EXPECT_TRUE(at::equal(r.experts, at::tensor({0, 1}, at::kLong).expand({10, 2})));
}

double loss_of(const Routing& r, std::string_view name) {
  for (const auto& [found, value] : r.losses) {
    if (found == name) return value.item().toDouble();
  }
  return -1;
}

TEST(TopK, balance_is_one_when_even_and_the_number_of_experts_when_all_go_to_one) {
  Case s(1);
  s.input.training = s.input.wants_losses = true;
  // Token t of four is the unit vector that only expert t answers.
  s.site.width = 4;
  s.router->bind(s.site, s.parameters, s.bank);
  s.parameters.weight("gate").detach().copy_(
      at::tensor({50.0F}) * at::tensor({1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, at::kFloat).view({4, 4}));
  s.input.hidden = at::tensor({1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, at::kFloat).view({1, 4, 4});
  EXPECT_NEAR(loss_of(s.router->route(s.input), "balance"), 1, 1e-5);
  s.input.hidden = at::tensor({1, 0, 0, 0}, at::kFloat).expand({1, 4, 4}).contiguous();
  EXPECT_NEAR(loss_of(s.router->route(s.input), "balance"), 4, 1e-5);
}

TEST(TopK, z_is_the_mean_squared_logsumexp) {
  Case s(1);
  s.input.training = s.input.wants_losses = true;
  const at::Tensor l = s.input.hidden.view({10, 3}).matmul(s.parameters.weight("gate").t());
  EXPECT_NEAR(loss_of(s.router->route(s.input), "z"), l.logsumexp(1).square().mean().item().toDouble(), 1e-6);
}

TEST(TopK, padding_does_not_count_in_losses) {
  Case s(2);
  s.input.training = s.input.wants_losses = true;
  const Routing half = [&] {
    RouterInput only = s.input;
    only.hidden = s.input.hidden.narrow(1, 0, 3);
    return s.router->route(only);
  }();
  s.input.mask = at::tensor({1, 1, 1, 0, 0}, at::kLong).to(at::kBool).expand({2, 5});
  const Routing masked = s.router->route(s.input);
  for (const char* name : {"balance", "z"}) EXPECT_NEAR(loss_of(masked, name), loss_of(half, name), 1e-5) << name;
}

TEST(TopK, evaluation_has_no_losses) {
  Case s(2);
  EXPECT_TRUE(s.router->route(s.input).losses.empty());
}

TEST(TopK, a_chosen_expert_may_count_fully_without_a_gradient_or_with_that_of_its_probability) {
  Case fully(2, weight_one), through(2, straight_through), plain(2);
  EXPECT_FALSE(fully.router->route(fully.input).weights.defined());
  const Routing r = through.router->route(through.input), p = plain.router->route(plain.input);
  EXPECT_TRUE(at::equal(r.weights, at::ones({10, 2}))) << "to the bit";
  EXPECT_TRUE(at::equal(r.experts, p.experts));
  const at::Tensor slopes = testing::normal({10, 2}, Random(4));
  (r.weights * slopes).sum().backward();
  (p.weights * slopes).sum().backward();
  EXPECT_TRUE(at::equal(through.parameters.weight("gate").grad(), plain.parameters.weight("gate").grad()));
}

TEST(TopK, a_share_of_the_experts_is_taken_to_the_nearest_number) {
  for (const auto& [active, k] : {std::pair<double, std::int64_t>{0.01, 1}, {0.3, 1}, {0.5, 2}, {0.7, 3}, {1, 4}}) {
    Case s(77, softmax, {{"active", active}});
    EXPECT_EQ(s.router->route(s.input).experts.size(1), k) << active;
    EXPECT_EQ(s.router->cost(s.site).experts_per_row, static_cast<double>(k)) << active;
  }
}

TEST(TopK, its_score_is_asked_prepared_and_told) {
  Case s(2);
  s.score->asks.activations = true;
  EXPECT_TRUE(s.router->needs().activations);
  s.router->prepare(nullptr, Random(0));
  EXPECT_EQ(s.score->prepared, 1);
  EXPECT_EQ(s.router->cost(s.site).multiply_adds, 12);
  const Routing r = s.router->route(s.input);
  EXPECT_TRUE(at::equal(r.observed, s.score->route(s.input).weights));
  s.router->after_step({5, r.experts, r.observed});
  EXPECT_EQ(s.score->observed.step, 5);
  EXPECT_TRUE(at::equal(s.score->observed.experts, r.experts));
}

TEST(TopK, a_score_of_sequences_routes_sequences) {
  Case s(1);
  s.score->rows_ = Rows::sequence;
  s.input.training = s.input.wants_losses = true;
  s.input.mask = at::ones({2, 5}, at::kBool);
  EXPECT_EQ(s.router->rows(), Rows::sequence);
  const Routing r = s.router->route(s.input);
  EXPECT_EQ(r.experts.sizes().vec(), (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(r.losses.size(), 2U);
}

TEST(TopK, a_score_that_chooses_by_itself_is_refused) {
  Case s(1);
  s.score->finds = true;
  EXPECT_EQ(testing::problems_of(*s.router, s.facts), "score: finds experts of its own, so it cannot score given ones");
  s.score->chooses = true;
  EXPECT_THROW(s.router->route(s.input), std::invalid_argument);
}

TEST(TopK, more_places_than_experts_are_refused) {
  EXPECT_EQ(testing::problems_of(*Case(5).router, Case(2).facts), "k: is 5, but there are 4 experts");
  EXPECT_EQ(testing::problems_of(*Case(2).router, Case(2).facts), "");
  Case many(5);
  EXPECT_THROW(many.router->bind(many.site, many.parameters, many.bank), std::invalid_argument);
}

TEST(TopK, one_token_one_expert_and_no_token) {
  Case s(1);
  s.site.experts = 1;
  s.router->bind(s.site, s.parameters, s.bank);
  s.input.training = s.input.wants_losses = true;
  s.input.hidden = testing::normal({1, 1, 3}, Random(3));
  const Routing single = s.router->route(s.input);
  EXPECT_EQ(single.experts.item().toLong(), 0);
  EXPECT_NEAR(single.weights.item().toDouble(), 1, 1e-6);
  s.input.hidden = testing::normal({0, 4, 3}, Random(3));
  EXPECT_EQ(s.router->route(s.input).experts.sizes().vec(), (std::vector<std::int64_t>{0, 1}));
}

}  // namespace
}  // namespace moiety
