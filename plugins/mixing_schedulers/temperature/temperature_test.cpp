#include <gtest/gtest.h>

#include <numeric>

#include "moiety/mixing_scheduler.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

std::vector<double> shares(double temperature, const std::vector<std::int64_t>& windows) {
  const auto scheduler = testing::make<MixingScheduler>("temperature", {{"temperature", temperature}});
  scheduler->start({std::vector<std::string>(windows.size()), windows, 100});
  auto result = scheduler->mixture({3, 10}).shares;
  const double sum = std::accumulate(result.begin(), result.end(), 0.0);
  for (double& share : result) share /= sum;
  return result;
}

TEST(Temperature, published_values_for_ninety_to_ten) {
  EXPECT_NEAR(shares(1.43, {900, 100})[0], 0.823, 5e-4);
  EXPECT_NEAR(shares(1.43, {900, 100})[1], 0.177, 5e-4);
  EXPECT_NEAR(shares(3.33, {900, 100})[0], 0.659, 5e-4);
  EXPECT_NEAR(shares(3.33, {900, 100})[1], 0.341, 5e-4);
}

TEST(Temperature, one_is_proportional_and_a_large_one_is_uniform) {
  const auto proportional = shares(1, {1, 3, 4, 0});
  EXPECT_NEAR(proportional[0], 0.125, 1e-12);
  EXPECT_NEAR(proportional[1], 0.375, 1e-12);
  EXPECT_EQ(proportional[3], 0);
  const auto equal = shares(1e9, {1, 1000, 0});
  EXPECT_NEAR(equal[0], 0.5, 1e-8);
  EXPECT_EQ(equal[2], 0);
}

TEST(Temperature, a_small_one_leaves_the_largest_alone_and_stays_finite) {
  const auto cold = shares(1e-6, {1000000, 10});
  EXPECT_EQ(cold, (std::vector<double>{1, 0}));
}

TEST(Temperature, no_windows_at_all_are_refused) {
  EXPECT_THROW(testing::make<MixingScheduler>("temperature")->start({{"a"}, {0}, 100}), std::invalid_argument);
}

}  // namespace
}  // namespace moiety
