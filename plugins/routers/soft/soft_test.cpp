#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "moiety_testing/testing.h"

namespace moiety {
namespace {

struct Case {
  Case() : bank({{"in", testing::normal({4, 2, 3}, Random(1))}}) {
    site.width = 3, site.experts = 4, site.inner = 8;
    router->bind(site, parameters, bank);
    input.hidden = testing::normal({2, 5, 3}, Random(2));
  }
  Site site;
  testing::TestParameters parameters;
  testing::TestBank bank;
  std::unique_ptr<Router> router = testing::make<Router>("soft");
  RouterInput input;
};

TEST(Soft, weights_are_the_softmax_over_all_experts) {
  Case s;
  s.parameters.weight("gate").detach().mul_(50);
  const Routing r = s.router->route(s.input);
  EXPECT_FALSE(r.experts.defined());
  ASSERT_EQ(r.weights.sizes().vec(), (std::vector<std::int64_t>{10, 4}));
  const at::Tensor x = s.input.hidden.view({10, 3}).to(at::kDouble), gate = s.parameters.weight("gate").detach().to(at::kDouble);
  for (std::int64_t row = 0; row < 10; ++row) {
    double sum = 0, logits[4];
    for (std::int64_t n = 0; n < 4; ++n) sum += std::exp(logits[n] = x[row].dot(gate[n]).item().toDouble());
    for (std::int64_t n = 0; n < 4; ++n) EXPECT_NEAR(r.weights[row][n].item().toDouble(), std::exp(logits[n]) / sum, 1e-6);
  }
}

TEST(Soft, a_new_gate_is_nearly_even_and_trains) {
  Case s;
  ASSERT_EQ(s.parameters.specs().size(), 1U);
  EXPECT_DOUBLE_EQ(s.parameters.specs()[0].deviation, 0.02);
  EXPECT_TRUE(s.parameters.specs()[0].trains);
  s.input.hidden.requires_grad_();
  const Routing r = s.router->route(s.input);
  EXPECT_LT((r.weights - 0.25).abs().max().item().toDouble(), 0.05);
  r.weights.square().sum().backward();
  EXPECT_GT(s.parameters.weight("gate").grad().abs().sum().item().toDouble(), 0);
  EXPECT_GT(s.input.hidden.grad().abs().sum().item().toDouble(), 0);
}

TEST(Soft, every_expert_runs) {
  Case s;
  EXPECT_EQ(s.router->cost(s.site).experts_per_row, 4);
  EXPECT_EQ(s.router->cost(s.site).multiply_adds, 12);
  s.input.hidden = testing::normal({0, 4, 3}, Random(3));
  EXPECT_EQ(s.router->route(s.input).weights.sizes().vec(), (std::vector<std::int64_t>{0, 4}));
}

}  // namespace
}  // namespace moiety
