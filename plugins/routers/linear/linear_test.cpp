#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "moiety_testing/testing.h"

namespace moiety {
namespace {

constexpr std::int64_t normal = 0, keys = 1;

struct Case {
  explicit Case(std::int64_t init) : bank({{"in", testing::normal({4, 2, 3}, Random(1))}}) {
    site.width = 3, site.experts = 4;
    router = testing::make<Router>("linear", {{"init", init}});
    router->bind(site, parameters, bank);
    input.hidden = testing::normal({2, 5, 3}, Random(2));
  }
  Site site;
  testing::TestParameters parameters;
  testing::TestBank bank;
  std::unique_ptr<Router> router;
  RouterInput input;
};

TEST(Linear, scores_are_products_with_the_gate) {
  Case s(normal);
  s.router->prepare(nullptr, Random(0));
  EXPECT_DOUBLE_EQ(s.parameters.specs().at(0).deviation, 0.02);
  const Routing r = s.router->route(s.input);
  EXPECT_FALSE(r.experts.defined());
  EXPECT_TRUE(at::equal(r.weights, s.input.hidden.view({10, 3}).matmul(s.parameters.weight("gate").t())));
  s.input.hidden.requires_grad_();
  s.router->route(s.input).weights.square().sum().backward();
  EXPECT_GT(s.parameters.weight("gate").grad().abs().sum().item().toDouble(), 0);
  EXPECT_GT(s.input.hidden.grad().abs().sum().item().toDouble(), 0);
  EXPECT_EQ(s.router->cost(s.site).multiply_adds, 12);
}

TEST(Linear, may_start_as_the_mean_keys_and_then_trains) {
  Case s(keys);
  s.router->prepare(nullptr, Random(0));
  EXPECT_TRUE(at::equal(s.parameters.weight("gate"), s.bank.keys().mean(1)));
  EXPECT_TRUE(s.parameters.specs().at(0).trains);
  s.bank.keys().add_(1);
  s.router->after_step({1, {}, {}});
  EXPECT_FALSE(at::equal(s.parameters.weight("gate"), s.bank.keys().mean(1))) << "it does not follow the keys";
}

}  // namespace
}  // namespace moiety
