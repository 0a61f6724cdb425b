#include <gtest/gtest.h>

#include "moiety/mixing_scheduler.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

TEST(Proportional, shares_are_the_numbers_of_windows) {
  const auto scheduler = testing::make<MixingScheduler>("proportional");
  scheduler->start({{"a", "b", "c"}, {10, 0, 30}, 100});
  EXPECT_EQ(scheduler->mixture({0, 10}).shares, (std::vector<double>{10, 0, 30}));
  EXPECT_EQ(scheduler->mixture({9, 10}).shares, (std::vector<double>{10, 0, 30}));
}

TEST(Proportional, no_windows_at_all_are_refused) {
  EXPECT_THROW(testing::make<MixingScheduler>("proportional")->start({{"a"}, {0}, 100}), std::invalid_argument);
}

TEST(Proportional, T42_saved_and_loaded_it_goes_on_equal) {
  const auto one = testing::make<MixingScheduler>("proportional"), other = testing::make<MixingScheduler>("proportional");
  const Domains domains{{"a", "b"}, {3, 4}, 10};
  one->start(domains);
  testing::TestArchive archive;
  one->state(archive);
  archive.rewind();
  other->start(domains);
  other->state(archive);
  EXPECT_EQ(one->mixture({5, 10}).shares, other->mixture({5, 10}).shares);
}

}  // namespace
}  // namespace moiety
