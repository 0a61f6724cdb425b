#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "moiety/sampler.h"
#include "moiety_testing/reports.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

using Windows = std::vector<std::int64_t>;
const WindowTable pool{{0, 10}, {10, 4}, {}, 0};

std::unique_ptr<Sampler> started(double epochs, std::uint64_t seed = 1) {
  auto sampler = testing::make<Sampler>("capped", {{"epochs", epochs}});
  sampler->start(pool, nullptr, Random(seed));
  return sampler;
}
Windows draw(Sampler& sampler, const Windows& counts) {
  Windows windows;
  sampler.draw({counts, 3, 0}, windows);
  return windows;
}

TEST(Capped, every_window_once_an_epoch_domain_by_domain) {
  const auto sampler = started(2);
  Windows first = draw(*sampler, {10, 4}), second = draw(*sampler, {10, 4});
  EXPECT_NE(first, second);
  for (Windows* epoch : {&first, &second}) {
    EXPECT_LT(*std::max_element(epoch->begin(), epoch->begin() + 10), 10);
    std::sort(epoch->begin(), epoch->end());
    for (std::int64_t i = 0; i < 14; ++i) EXPECT_EQ((*epoch)[static_cast<std::size_t>(i)], i);
  }
}

TEST(Capped, a_domain_is_not_read_more_often) {
  const auto sampler = started(1.5);
  draw(*sampler, {3, 6});
  testing::TestReport report("capped");
  sampler->report(report);
  EXPECT_EQ(report.value("repeats"), 1.5);
  EXPECT_NO_THROW(draw(*sampler, {12, 0}));
  try {
    draw(*sampler, {0, 1});
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "the mixture asks for 7 windows of domain 1 by step 3, but 1.5 epochs of its 4 are 6");
  }
}

TEST(Capped, a_run_that_is_too_long_is_refused_with_the_numbers) {
  const auto sampler = started(1.5);
  Problems fits, too_long, planned;
  sampler->check_budget(21, fits);
  EXPECT_TRUE(fits.list().empty());
  sampler->check_budget(22, too_long);
  ASSERT_EQ(too_long.list().size(), 1U);
  EXPECT_EQ(too_long.list()[0].message, "the run has 22 windows, but 1.5 epochs of all 14 are 21");
  Facts facts;
  facts.domain_windows = {10, 4};
  facts.run_windows = 22;
  testing::make<Sampler>("capped", {{"epochs", 1.5}})->check(facts, planned);
  EXPECT_EQ(planned.list().size(), 1U);
}

TEST(Capped, wrong_counts_are_refused) { EXPECT_THROW(draw(*started(1), {1}), std::invalid_argument); }

TEST(Capped, T42_saved_and_loaded_it_goes_on_equal) {
  for (const bool state_first : {false, true}) {
    const auto whole = started(9, 5);
    for (int i = 0; i < 5; ++i) draw(*whole, {3, 2});
    testing::TestArchive archive;
    whole->state(archive);
    archive.rewind();
    const auto resumed = testing::make<Sampler>("capped", {{"epochs", 9.0}});
    if (state_first) resumed->state(archive);
    resumed->start(pool, nullptr, Random(5));
    if (!state_first) resumed->state(archive);
    for (int i = 0; i < 12; ++i) ASSERT_EQ(draw(*whole, {3, 2}), draw(*resumed, {3, 2}));
  }
}

}  // namespace
}  // namespace moiety
