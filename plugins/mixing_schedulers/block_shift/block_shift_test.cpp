#include <gtest/gtest.h>

#include <numeric>

#include "moiety/mixing_scheduler.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

const Domains domains{{"en", "de", "fr"}, {500, 400, 100}, 1000};

std::unique_ptr<MixingScheduler> scheduler(double shift, const Budget& length = {}, const Shares& weights = {},
                                           const std::string& domain = "en") {
  std::map<std::string, Value> given{{"domain", domain}, {"shift", shift}, {"weights", weights}};
  if (!length.unit.empty()) given["length"] = length;
  return testing::make<MixingScheduler>("block-shift", std::move(given));
}

std::string refusal(const MixingScheduler& s) {
  Facts facts;
  facts.domains = domains.names;
  facts.domain_windows = domains.windows;
  facts.run_windows = domains.run_windows;
  Problems problems;
  s.check(facts, problems);
  return problems.list().empty() ? "" : problems.list()[0].parameter + ": " + problems.list()[0].message;
}

TEST(BlockShift, up_then_down_then_as_before) {
  const auto s = scheduler(0.2, {200, "examples"});
  s->start(domains);
  const auto near = [&](std::int64_t step, const std::vector<double>& expected) {
    const auto shares = s->mixture({step, 100}).shares;
    for (std::size_t d = 0; d < 3; ++d) EXPECT_NEAR(shares[d], expected[d], 1e-12) << step << " " << d;
  };
  near(0, {0.7, 0.24, 0.06});
  near(19, {0.7, 0.24, 0.06});
  near(20, {0.3, 0.56, 0.14});
  near(39, {0.3, 0.56, 0.14});
  near(40, {0.5, 0.4, 0.1});
  near(99, {0.5, 0.4, 0.1});
}

TEST(BlockShift, budgets_are_kept_whatever_the_length) {
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    const std::int64_t steps = 1 + random.below(40);
    const double shift = 0.8 * random.uniform() - 0.4;
    const Budget length = i % 3 == 0   ? Budget{}
                          : i % 3 == 1 ? Budget{500 * random.uniform(), "examples"}
                                       : Budget{0.5 * static_cast<double>(steps) * random.uniform(), "steps"};
    const auto s = scheduler(shift, length, {{"en", 5}, {"de", 4}, {"fr", 1}});
    s->start(domains);
    std::vector<double> sum(3);
    for (std::int64_t step = 0; step < steps; ++step) {
      const auto shares = s->mixture({step, steps}).shares;
      EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-12);
      for (std::size_t d = 0; d < 3; ++d) sum[d] += shares[d] / static_cast<double>(steps);
    }
    EXPECT_NEAR(sum[0], 0.5, 1e-9);
    EXPECT_NEAR(sum[1], 0.4, 1e-9);
    EXPECT_NEAR(sum[2], 0.1, 1e-9);
  }
}

TEST(BlockShift, the_domain_is_ahead_by_a_triangle) {
  const auto s = scheduler(-0.3, {300, "examples"});
  s->start(domains);
  double ahead = 0, area = 0;  // Δ in shares times windows
  for (std::int64_t step = 0; step < 1000; ++step) {
    const double delta = s->mixture({step, 1000}).shares[0] - 0.5;
    area += ahead + delta / 2;
    ahead += delta;
  }
  EXPECT_NEAR(ahead, 0, 1e-9);
  EXPECT_NEAR(area, -0.3 * 300 * 300, 1e-6);
}

TEST(BlockShift, a_shift_of_nothing_is_constant) {
  const auto s = scheduler(0);
  s->start(domains);
  for (std::int64_t step = 0; step < 10; ++step) EXPECT_NEAR(s->mixture({step, 10}).shares[1], 0.4, 1e-15);
}

TEST(BlockShift, what_cannot_be_is_refused) {
  EXPECT_EQ(refusal(*scheduler(0.2)), "");
  EXPECT_EQ(refusal(*scheduler(-0.5)), "");
  EXPECT_EQ(refusal(*scheduler(0.2, {}, {{"en", 0.9}, {"de", 0.1}})),
            "shift: the share of `en` is 0.9, which cannot be both 0.2 higher and lower");
  EXPECT_EQ(refusal(*scheduler(0.1, {}, {}, "eng")), "domain: there is no domain `eng`; did you mean `en`?");
  EXPECT_EQ(refusal(*scheduler(0.1, {}, {{"es", 1}})), "weights: there is no domain `es`; did you mean `en`?");
  EXPECT_EQ(refusal(*scheduler(0.1, {}, {{"en", -1}})), "weights: the share of `en` must be a number of at least 0");
  EXPECT_EQ(refusal(*scheduler(0.1, {2, "epochs"})), "length: must be in tokens, examples (windows) or steps, but is in epochs");
  EXPECT_EQ(refusal(*scheduler(0.1, {501, "examples"})),
            "length: two halves of 501 windows do not fit into a run of 1000, so the shift would not be made good");
  const auto s = scheduler(0.1, {6, "steps"});
  s->start(domains);
  EXPECT_NO_THROW(s->mixture({0, 12}));
  EXPECT_THROW(s->mixture({0, 11}), std::invalid_argument);
}

TEST(BlockShift, a_length_in_tokens_is_one_in_windows) {
  Domains sized = domains;
  sized.window_tokens = 128;
  const auto tokens = scheduler(0.2, {200 * 128.0, "tokens"}), windows = scheduler(0.2, {200, "examples"});
  tokens->start(sized);
  windows->start(sized);
  for (std::int64_t step = 0; step < 100; ++step)
    EXPECT_EQ(tokens->mixture({step, 100}).shares, windows->mixture({step, 100}).shares) << step;
  Facts facts;
  facts.domains = domains.names;
  facts.domain_windows = domains.windows;
  facts.run_windows = domains.run_windows;
  facts.window_tokens = 128;
  Problems problems;
  scheduler(0.1, {501 * 128.0, "tokens"})->check(facts, problems);
  ASSERT_EQ(problems.list().size(), 1U);
  EXPECT_EQ(problems.list()[0].message,
            "two halves of 501 windows do not fit into a run of 1000, so the shift would not be made good");
  EXPECT_THROW(tokens->start(domains), std::invalid_argument) << "windows of unknown length";
}

TEST(BlockShift, sizes_not_known_yet_are_no_reason_to_refuse) {
  Facts facts;
  facts.domains = domains.names;
  Problems problems;
  scheduler(0.4)->check(facts, problems);
  EXPECT_TRUE(problems.list().empty());
}

}  // namespace
}  // namespace moiety
