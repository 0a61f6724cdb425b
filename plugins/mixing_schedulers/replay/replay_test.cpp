#include <gtest/gtest.h>

#include "moiety/mixing_scheduler.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

const Domains domains{{"general", "law", "math", "old"}, {1000, 30, 10, 0}, 100};

std::unique_ptr<MixingScheduler> scheduler(const std::string& of, double share = 0.1) {
  return testing::make<MixingScheduler>("replay", {{"of", of}, {"share", share}});
}

std::string refusal(const std::string& of, const Domains& there = domains) {
  Facts facts;
  facts.domains = there.names;
  facts.domain_windows = there.windows;
  Problems problems;
  scheduler(of)->check(facts, problems);
  if (problems.list().empty()) return "";
  EXPECT_EQ(problems.list()[0].parameter, "of");
  EXPECT_THROW(scheduler(of)->start(there), std::invalid_argument);
  return problems.list()[0].message;
}

TEST(Replay, a_tenth_of_one_and_the_rest_by_size) {
  const auto s = scheduler("general");
  s->start(domains);
  const auto shares = s->mixture({7, 10}).shares;
  ASSERT_EQ(shares.size(), 4U);
  EXPECT_DOUBLE_EQ(shares[0], 0.1);
  EXPECT_DOUBLE_EQ(shares[1], 0.675);
  EXPECT_DOUBLE_EQ(shares[2], 0.225);
  EXPECT_EQ(shares[3], 0);
}

TEST(Replay, what_cannot_be_is_refused) {
  EXPECT_EQ(refusal("general"), "");
  EXPECT_EQ(refusal("songs"), "the stage reads no domain `songs`: select it in `data`, beside the others");
  EXPECT_EQ(refusal("generel"), "there is no domain `generel`; did you mean `general`?");
  EXPECT_EQ(refusal("old"), "domain `old` has no training window");
  EXPECT_EQ(refusal("a", {{"a", "b"}, {5, 0}, 10}), "no other domain than `a` has a training window");
}

TEST(Replay, sizes_not_known_yet_are_no_reason_to_refuse) {
  Facts facts;
  facts.domains = domains.names;
  Problems problems;
  scheduler("law")->check(facts, problems);
  EXPECT_TRUE(problems.list().empty());
}

}  // namespace
}  // namespace moiety
