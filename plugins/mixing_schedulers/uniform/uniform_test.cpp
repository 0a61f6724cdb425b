#include <gtest/gtest.h>

#include "moiety/mixing_scheduler.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

TEST(UniformMixing, domains_with_windows_get_equal_shares_at_every_step) {
  const auto scheduler = testing::make<MixingScheduler>("uniform");
  scheduler->start({{"a", "b", "c"}, {10, 0, 30}, 100});
  for (std::int64_t step = 0; step < 10; ++step) {
    const Mixture mixture = scheduler->mixture({step, 10});
    EXPECT_EQ(mixture.shares, (std::vector<double>{1, 0, 1}));
    EXPECT_TRUE(mixture.loss_factors.empty());
  }
}

TEST(UniformMixing, no_windows_at_all_are_refused) {
  EXPECT_THROW(testing::make<MixingScheduler>("uniform")->start({{"a"}, {0}, 100}), std::invalid_argument);
}

TEST(UniformMixing, T42_saved_and_loaded_it_goes_on_equal) {
  const auto one = testing::make<MixingScheduler>("uniform"), other = testing::make<MixingScheduler>("uniform");
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
