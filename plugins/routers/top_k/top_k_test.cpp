#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "moiety_testing/testing.h"

namespace moiety {
namespace {

using testing::make;
using testing::TestBank;
using testing::TestParameters;

struct Case {
  explicit Case(std::int64_t k, std::int64_t gate = 0) : bank({{"in", testing::normal({4, 2, 3}, Random(1))}}) {
    site.width = 3, site.experts = 4, site.inner = 8;
    router = make<Router>("top-k", {{"k", k}, {"gate", gate}});
    router->bind(site, parameters, bank);
    input.hidden = testing::normal({2, 5, 3}, Random(2));
  }
  Site site;
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
  Case s(3, 1), plain(3, 0);
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
  s.input.training = true;
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
  s.input.training = true;
  const at::Tensor l = s.input.hidden.view({10, 3}).matmul(s.parameters.weight("gate").t());
  EXPECT_NEAR(loss_of(s.router->route(s.input), "z"), l.logsumexp(1).square().mean().item().toDouble(), 1e-6);
}

TEST(TopK, padding_does_not_count_in_losses) {
  Case s(2);
  s.input.training = true;
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

TEST(TopK, more_places_than_experts_are_refused) {
  Case s(2);
  Facts facts;
  facts.site = &s.site;
  Problems problems;
  make<Router>("top-k", {{"k", std::int64_t{5}}})->check(facts, problems);
  ASSERT_EQ(problems.list().size(), 1U);
  EXPECT_EQ(problems.list()[0].parameter, "k");
  EXPECT_EQ(problems.list()[0].message, "is 5, but there are 4 experts");
  Problems none;
  s.router->check(facts, none);
  EXPECT_TRUE(none.list().empty());
}

TEST(TopK, one_token_one_expert_and_no_token) {
  Case s(1);
  s.site.experts = 1;
  s.router->bind(s.site, s.parameters, s.bank);
  s.input.training = true;
  s.input.hidden = testing::normal({1, 1, 3}, Random(3));
  const Routing one = s.router->route(s.input);
  EXPECT_EQ(one.experts.item().toLong(), 0);
  EXPECT_NEAR(one.weights.item().toDouble(), 1, 1e-6);
  s.input.hidden = testing::normal({0, 4, 3}, Random(3));
  EXPECT_EQ(s.router->route(s.input).experts.sizes().vec(), (std::vector<std::int64_t>{0, 1}));
}

}  // namespace
}  // namespace moiety
