#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "moiety_testing/testing.h"

namespace moiety {
namespace {

TEST(Uniform, every_expert_has_the_same_share_of_every_token) {
  Site site;
  site.width = 3, site.experts = 5;
  const auto router = testing::make<Router>("uniform");
  testing::TestParameters parameters;
  router->bind(site, parameters, testing::TestBank({}));
  EXPECT_TRUE(parameters.specs().empty());
  RouterInput input;
  input.hidden = testing::normal({2, 4, 3}, Random(1)).requires_grad_();
  const Routing r = router->route(input);
  EXPECT_FALSE(r.experts.defined());
  EXPECT_FALSE(r.weights.requires_grad());
  EXPECT_TRUE(at::equal(r.weights, at::full({8, 5}, 0.2)));
  EXPECT_EQ(router->cost(site).experts_per_row, 5);
  EXPECT_EQ(router->cost(site).multiply_adds, 0);
}

}  // namespace
}  // namespace moiety
