#include <gtest/gtest.h>

#include "moiety_testing/testing.h"

namespace moiety {
namespace {

TEST(All, chooses_and_weighs_nobody) {
  Site site;
  site.width = 3, site.experts = 5;
  const auto router = testing::make<Router>("all");
  testing::TestParameters parameters;
  router->bind(site, parameters, testing::TestBank({}));
  EXPECT_TRUE(parameters.specs().empty());
  RouterInput input;
  input.hidden = testing::normal({2, 4, 3}, Random(1));
  const Routing r = router->route(input);
  EXPECT_FALSE(r.experts.defined()) << "a plain sum";
  EXPECT_FALSE(r.weights.defined());
  EXPECT_EQ(router->cost(site).experts_per_row, 5);
  EXPECT_EQ(router->cost(site).multiply_adds, 0);
}

}  // namespace
}  // namespace moiety
