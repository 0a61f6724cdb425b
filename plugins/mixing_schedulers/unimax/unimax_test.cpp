#include <gtest/gtest.h>

#include <numeric>

#include "moiety/mixing_scheduler.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

std::vector<double> budgets(double epochs, const std::vector<std::int64_t>& windows, std::int64_t run) {
  const auto scheduler = testing::make<MixingScheduler>("unimax", {{"epochs", epochs}});
  scheduler->start({std::vector<std::string>(windows.size()), windows, run});
  return scheduler->mixture({0, 10}).shares;
}

TEST(UniMax, values_of_the_algorithm) {
  EXPECT_EQ(budgets(4, {1, 2, 10, 100}, 40), (std::vector<double>{4, 8, 14, 14}));
  EXPECT_EQ(budgets(4, {100, 2, 1, 10}, 40), (std::vector<double>{14, 8, 4, 14}));
  EXPECT_EQ(budgets(1, {90, 10}, 100), (std::vector<double>{90, 10}));
  EXPECT_EQ(budgets(4, {90, 10}, 100), (std::vector<double>{60, 40}));
}

TEST(UniMax, no_domain_is_above_its_cap_and_the_budget_is_spent) {
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    std::vector<std::int64_t> windows(static_cast<std::size_t>(1 + random.below(9)));
    for (auto& n : windows) n = random.below(50);
    windows[0] += 1;
    const std::int64_t all = std::accumulate(windows.begin(), windows.end(), std::int64_t{0});
    const double epochs = 0.5 + 4 * random.uniform();
    const auto run = static_cast<std::int64_t>(epochs * static_cast<double>(all) * random.uniform());
    const auto given = budgets(epochs, windows, run);
    double spent = 0;
    for (std::size_t d = 0; d < windows.size(); ++d) {
      EXPECT_LE(given[d], epochs * static_cast<double>(windows[d]));
      spent += given[d];
    }
    EXPECT_NEAR(spent, static_cast<double>(run), 1e-9 * static_cast<double>(all));
  }
}

TEST(UniMax, a_budget_that_cannot_be_spent_is_refused_with_the_numbers) {
  const auto scheduler = testing::make<MixingScheduler>("unimax", {{"epochs", 2.5}});
  Facts facts;
  facts.domain_windows = {10, 2};
  facts.run_windows = 30;
  Problems fits, too_long;
  scheduler->check(facts, fits);
  EXPECT_TRUE(fits.list().empty());
  facts.run_windows = 31;
  scheduler->check(facts, too_long);
  ASSERT_EQ(too_long.list().size(), 1U);
  EXPECT_EQ(too_long.list()[0].parameter, "epochs");
  EXPECT_EQ(too_long.list()[0].message, "the run has 31 windows, but 2.5 epochs of all 12 windows are 30");
  EXPECT_THROW(scheduler->start({{"a", "b"}, {10, 2}, 31}), std::invalid_argument);
  EXPECT_TRUE(scheduler->conserves_budgets());
}

}  // namespace
}  // namespace moiety
