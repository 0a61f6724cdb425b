#include <gtest/gtest.h>

#include <cmath>

#include "moiety/mixing_scheduler.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

const Domains domains{{"fiction", "code", "manuals"}, {100, 50, 0}, 100};

std::unique_ptr<MixingScheduler> scheduler(const Shares& weights) {
  return testing::make<MixingScheduler>("constant", {{"weights", weights}});
}

std::string refusal(const Shares& weights) {
  Facts facts;
  facts.domains = domains.names;
  facts.domain_windows = domains.windows;
  Problems problems;
  scheduler(weights)->check(facts, problems);
  if (problems.list().empty()) return "";
  EXPECT_EQ(problems.list()[0].parameter, "weights");
  EXPECT_THROW(scheduler(weights)->start(domains), std::invalid_argument);
  return problems.list()[0].message;
}

TEST(Constant, equal_shares_when_nothing_is_said) {
  const auto s = testing::make<MixingScheduler>("constant");
  s->start(domains);
  EXPECT_EQ(s->mixture({0, 10}).shares, (std::vector<double>{1, 1, 1}));
}

TEST(Constant, shares_as_written_and_the_same_at_every_step) {
  const auto s = scheduler({{"code", 1}, {"fiction", 2.5}});
  s->start(domains);
  for (std::int64_t step = 0; step < 10; ++step) EXPECT_EQ(s->mixture({step, 10}).shares, (std::vector<double>{2.5, 1, 0}));
}

TEST(Constant, wrong_shares_are_refused_with_what_is_meant) {
  EXPECT_EQ(refusal({{"fiction", 2}, {"code", 1}}), "");
  EXPECT_EQ(refusal({{"ficton", 2}}), "the corpus has no domain `ficton`; did you mean `fiction`?");
  EXPECT_EQ(refusal({{"zebra", 2}}), "the corpus has no domain `zebra`");
  EXPECT_EQ(refusal({{"fiction", -1}}), "the share of `fiction` must be a number of at least 0");
  EXPECT_EQ(refusal({{"fiction", std::nan("")}}), "the share of `fiction` must be a number of at least 0");
  EXPECT_EQ(refusal({{"code", 1}, {"code", 2}}), "domain `code` is given twice");
  EXPECT_EQ(refusal({{"manuals", 1}}), "domain `manuals` has no training window");
  EXPECT_EQ(refusal({{"code", 0}}), "are all zero");
}

TEST(Constant, T42_saved_and_loaded_it_goes_on_equal) {
  const auto one = scheduler({{"code", 1}, {"fiction", 3}}), other = scheduler({{"code", 1}, {"fiction", 3}});
  one->start(domains);
  testing::TestArchive archive;
  one->state(archive);
  archive.rewind();
  other->state(archive);
  other->start(domains);
  EXPECT_EQ(one->mixture({3, 10}).shares, other->mixture({3, 10}).shares);
}

}  // namespace
}  // namespace moiety
