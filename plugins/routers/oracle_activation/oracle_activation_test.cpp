#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "moiety_testing/testing.h"

namespace moiety {
namespace {

at::Tensor scores_of(const testing::TestBank& bank, const at::Tensor& hidden) {
  Site site;
  site.width = 3, site.experts = 4, site.inner = 8;
  testing::TestParameters parameters;
  const auto router = testing::make<Router>("oracle-activation");
  router->bind(site, parameters, bank);
  EXPECT_TRUE(parameters.specs().empty());
  EXPECT_EQ(router->cost(site).multiply_adds, 24);
  RouterInput input;
  input.hidden = hidden;
  return router->route(input).weights;
}

TEST(OracleActivation, scores_are_sums_of_positive_activations) {
  const at::Tensor keys = testing::normal({4, 2, 3}, Random(1)), bias = testing::normal({4, 2}, Random(2)),
                   x = testing::normal({2, 5, 3}, Random(3));
  for (const bool biased : {true, false}) {
    TensorMap bank{{"in", keys}};
    if (biased) bank["in_bias"] = bias;
    const at::Tensor scores = scores_of(testing::TestBank(bank), x);
    ASSERT_EQ(scores.sizes().vec(), (std::vector<std::int64_t>{10, 4}));
    for (std::int64_t row = 0; row < 10; ++row) {
      for (std::int64_t n = 0; n < 4; ++n) {
        double sum = 0;
        for (std::int64_t j = 0; j < 2; ++j)
          sum += std::max(0.0, (keys[n][j].dot(x.view({10, 3})[row]) + bias[n][j] * (biased ? 1 : 0)).item().toDouble());
        EXPECT_NEAR(scores[row][n].item().toDouble(), sum, 1e-5);
      }
    }
  }
}

TEST(OracleActivation, is_of_feed_forwards) {
  Site site;
  Facts facts;
  facts.site = &site;
  EXPECT_EQ(testing::problems_of(*testing::make<Router>("oracle-activation"), facts), "");
  site.place = Place::attention;
  EXPECT_EQ(testing::problems_of(*testing::make<Router>("oracle-activation"), facts), ": scores neurons of feed-forwards alone");
}

}  // namespace
}  // namespace moiety
