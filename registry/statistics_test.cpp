#include "registry/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace moiety::registry {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;

// Student 1908: hours of sleep gained, drug 2 minus drug 1 (R: sleep). t.test there gives t = 4.0621, df = 9, p = 0.002833,
// interval 0.7001142 .. 2.4598858.
const std::vector<double> sleep_data = {1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4};

TEST(Statistics, students_t_quantiles_are_those_of_the_tables) {
  EXPECT_NEAR(student_t_quantile(0.975, 1), 12.7062047, 1e-6);
  EXPECT_NEAR(student_t_quantile(0.975, 4), 2.7764451, 1e-6);
  EXPECT_NEAR(student_t_quantile(0.975, 9), 2.2621572, 1e-6);
  EXPECT_NEAR(student_t_quantile(0.995, 30), 2.7499957, 1e-6);
  EXPECT_NEAR(student_t_quantile(0.025, 4), -2.7764451, 1e-6);
  EXPECT_EQ(student_t_quantile(0.5, 7), 0);
  EXPECT_NEAR(student_t_two_sided_p(2.7764451, 4), 0.05, 1e-7);
  EXPECT_NEAR(student_t_two_sided_p(-12.7062047, 1), 0.05, 1e-7);
  EXPECT_TRUE(std::isnan(student_t_quantile(1, 4)));
  EXPECT_TRUE(std::isnan(student_t_quantile(0.5, 0)));
  EXPECT_EQ(student_t_two_sided_p(std::numeric_limits<double>::infinity(), 4), 0);
}

TEST(Statistics, mean_and_deviation_survive_a_large_offset) {
  const auto summary = summarise({1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16});
  EXPECT_EQ(summary.n, 4);
  EXPECT_EQ(summary.mean, 1e9 + 10);
  EXPECT_NEAR(summary.sd, std::sqrt(30.0), 1e-9);
  EXPECT_EQ(summarise({}).n, 0);
  EXPECT_EQ(summarise({5}).sd, 0);
  EXPECT_EQ(summarise({1, std::nan(""), 3}).n, 2);
}

TEST(Statistics, T40_paired_interval_and_p_of_the_sleep_data) {
  const auto interval = mean_interval(sleep_data, 0.95);
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->method, "t");
  EXPECT_NEAR(interval->mean, 1.58, 1e-12);
  EXPECT_NEAR(interval->low, 0.7001142, 1e-6);
  EXPECT_NEAR(interval->high, 2.4598858, 1e-6);
  EXPECT_NEAR(*paired_p(sleep_data), 0.002833, 1e-6);
}

TEST(Statistics, two_values_have_an_interval_but_no_p) {
  const auto interval = mean_interval({1, 3}, 0.95);
  ASSERT_TRUE(interval);
  EXPECT_NEAR(interval->high, 2 + 12.7062047, 1e-5);  // se = 1
  EXPECT_FALSE(paired_p({1, 3}));
  EXPECT_FALSE(mean_interval({1}, 0.95));
  EXPECT_FALSE(mean_interval({1, std::nan("")}, 0.95));
  EXPECT_FALSE(paired_p({0.5, 0.5, 0.5})) << "no scale, no t";
}

TEST(Statistics, bootstrap_t_from_twenty_on_with_a_fixed_seed) {
  std::vector<double> values;
  for (int i = 0; i < 19; ++i) values.push_back(std::sin(i * 12.9898) * 2 + 1);
  EXPECT_EQ(mean_interval(values, 0.95)->method, "t");
  values.push_back(1.3);
  const auto interval = mean_interval(values, 0.95);
  EXPECT_EQ(interval->method, "bootstrap-t");
  const auto again = mean_interval(values, 0.95);
  EXPECT_EQ(interval->low, again->low);
  EXPECT_EQ(interval->high, again->high);
  // Near Student's where the values are nearly symmetric.
  const auto summary = summarise(values);
  const double half = student_t_quantile(0.975, 19) * summary.sd / std::sqrt(20.0);
  EXPECT_NEAR(interval->low, summary.mean - half, 0.2 * half);
  EXPECT_NEAR(interval->high, summary.mean + half, 0.2 * half);
}

TEST(Statistics, bootstrap_t_agrees_with_an_independent_program_on_skewed_values) {
  // A long right tail. Reference: the same quantiles in twenty lines of Python's `random` with 200,000 draws.
  std::vector<double> values;
  for (int i = 0; i < 24; ++i) values.push_back(std::exp(-2 + i * 0.17));
  const auto interval = mean_interval(values, 0.95);
  ASSERT_TRUE(interval);
  EXPECT_NEAR(interval->low, 1.0904, 0.03);
  EXPECT_NEAR(interval->high, 2.8579, 0.08);
  EXPECT_GT(interval->high - interval->mean, interval->mean - interval->low) << "leans to the long tail";
}

TEST(Statistics, equal_values_have_an_interval_without_width) {
  for (const int n : {3, 25}) {
    const auto interval = mean_interval(std::vector<double>(static_cast<std::size_t>(n), 0.1), 0.95);
    ASSERT_TRUE(interval);
    EXPECT_EQ(interval->low, 0.1);
    EXPECT_EQ(interval->high, 0.1);
  }
}

TEST(Statistics, values_beyond_any_deviation_decide_nothing_and_end) {
  for (const int n : {5, 30}) {
    std::vector<double> values(static_cast<std::size_t>(n), 1.0);
    values[0] = 1e200;
    const auto interval = mean_interval(values, 0.95);
    ASSERT_TRUE(interval);
    EXPECT_TRUE(std::isinf(interval->high));
    Statement statement;
    EXPECT_EQ(decide(values, statement, 0.95).verdict, Verdict::undecided);
  }
}

TEST(Statistics, T40_holm_steps_down) {
  const auto adjusted = holm({0.01, 0.04, 0.03, 0.005});
  EXPECT_THAT(adjusted, testing::ElementsAre(DoubleNear(0.03, 1e-12), DoubleNear(0.06, 1e-12), DoubleNear(0.06, 1e-12),
                                             DoubleNear(0.02, 1e-12)));
  EXPECT_THAT(holm({0.6, 0.7}), testing::ElementsAre(1.0, 1.0));
  EXPECT_TRUE(holm({}).empty());
}

TEST(Statistics, the_detectable_difference_is_found_four_times_out_of_five) {
  // t(0.975; 9) + t(0.8; 9) = 2.2621572 + 0.8834039, times the deviation over the root of ten.
  const auto detectable = detectable_difference(sleep_data, 0.95);
  ASSERT_TRUE(detectable);
  EXPECT_NEAR(*detectable, (2.2621572 + 0.8834039) * 1.2299955 / std::sqrt(10.0), 1e-5);
  EXPECT_FALSE(detectable_difference({1, 2}, 0.95));
}

TEST(Statistics, students_interval_covers_as_promised_at_five_seeds) {
  std::mt19937_64 engine(11);
  const auto uniform = [&] { return (static_cast<double>(engine() >> 11) + 0.5) / 9007199254740992.0; };
  int covered = 0;
  constexpr int trials = 4000;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> values;
    for (int i = 0; i < 5; ++i) values.push_back(std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform()));
    const auto interval = mean_interval(values, 0.95);
    covered += interval->low < 0 && interval->high > 0 ? 1 : 0;
  }
  // 0.95 ± 4 standard errors of the simulation.
  EXPECT_NEAR(covered / static_cast<double>(trials), 0.95, 0.014);
}

struct Case {
  const char* what;
  std::vector<double> values;
  Statement statement;
  Verdict verdict;
};

Statement above(double by, std::optional<double> margin = {}) {
  Statement s;
  s.form = Form::above;
  s.by = by;
  s.margin = margin;
  return s;
}
Statement within(Form form, double m) {
  Statement s;
  s.form = form;
  s.within = m;
  return s;
}
Statement inside(double low, double high) {
  Statement s;
  s.form = Form::inside;
  s.low = low;
  s.high = high;
  return s;
}
Statement exactly(Statement s) {
  s.exact = true;
  return s;
}
Statement equal() {
  Statement s;
  s.form = Form::exact_equal;
  return s;
}

// Five values 0.9 .. 1.1 have the interval 0.902 .. 1.098 (sd 0.0790569, t 2.7764451).
const std::vector<double> near_one = {0.9, 0.95, 1.0, 1.05, 1.1};
const std::vector<double> near_zero = {-0.1, -0.05, 0.0, 0.05, 0.1};
std::vector<double> minus(std::vector<double> values) {
  for (auto& value : values) value = -value;
  return values;
}

TEST(Verdicts, the_table_of_forms_and_verdicts) {
  const std::vector<Case> cases = {
      {"above 0: interval above", near_one, above(0), Verdict::supported},
      {"above 0: interval below", minus(near_one), above(0), Verdict::refuted},
      {"above 0: interval around", near_zero, above(0), Verdict::undecided},
      {"above 0: around, but inside the margin", near_zero, above(0, 0.2), Verdict::refuted},
      {"above 0: around, and not inside the margin", near_zero, above(0, 0.05), Verdict::undecided},
      {"above 0: interval above beats the margin that holds it", near_one, above(0, 5.0), Verdict::supported},
      {"above m: above m", near_one, above(0.9), Verdict::supported},
      {"above m: positive, but below m", near_one, above(1.2), Verdict::refuted},
      {"above m: m inside", near_one, above(1.0), Verdict::undecided},
      {"not above: below m", near_one, within(Form::not_above, 1.2), Verdict::supported},
      {"not above: above m", near_one, within(Form::not_above, 0.5), Verdict::refuted},
      {"not above: m inside", near_one, within(Form::not_above, 1.0), Verdict::undecided},
      {"equivalent: inside", near_zero, within(Form::equivalent, 0.2), Verdict::supported},
      {"equivalent: wholly above", near_one, within(Form::equivalent, 0.2), Verdict::refuted},
      {"equivalent: wholly below", minus(near_one), within(Form::equivalent, 0.2), Verdict::refuted},
      {"equivalent: reaches over", near_zero, within(Form::equivalent, 0.05), Verdict::undecided},
      {"inside: inside", near_one, inside(0.5, 1.5), Verdict::supported},
      {"inside: wholly outside", near_one, inside(2, 3), Verdict::refuted},
      {"inside: reaches over", near_one, inside(1, 2), Verdict::undecided},
      {"count equal", {0}, equal(), Verdict::supported},
      {"count not equal", {0, 0, 1}, equal(), Verdict::refuted},
      {"count above", {5}, exactly(above(0)), Verdict::supported},
      {"count above, one not", {5, 5, 0}, exactly(above(0)), Verdict::refuted},
      {"count not above, at the limit", {3}, exactly(within(Form::not_above, 3)), Verdict::supported},
      {"two seeds never decide", {1.0, 1.01}, above(0), Verdict::undecided},
      {"one seed never decides", {1.0}, above(0), Verdict::undecided},
      {"no values", {}, above(0), Verdict::undecided},
      {"a diverged run", {1, 1.1, std::nan("")}, above(0), Verdict::undecided},
      {"an arm against its copy", {0, 0, 0, 0, 0}, above(0), Verdict::undecided},
      {"an arm against its copy, with a margin", {0, 0, 0, 0, 0}, above(0, 1.0), Verdict::undecided},
      {"an arm against its copy is equivalent", {0, 0, 0, 0, 0}, within(Form::equivalent, 0.1), Verdict::supported},
      {"all differ by the same", {0.5, 0.5, 0.5}, above(0), Verdict::supported},
  };
  for (const auto& one : cases) {
    const auto decision = decide(one.values, one.statement, 0.95);
    EXPECT_EQ(decision.verdict, one.verdict) << one.what << ": " << decision.reason;
    EXPECT_FALSE(decision.reason.empty()) << one.what;
  }
}

TEST(Verdicts, say_why) {
  EXPECT_THAT(decide({1, 2}, above(0), 0.95).reason, HasSubstr("fewer than three"));
  EXPECT_THAT(decide({0, 0, 0}, above(0), 0.95).reason, HasSubstr("exactly equal"));
  EXPECT_THAT(decide(near_zero, above(0), 0.95).reason, HasSubstr("includes 0"));
  EXPECT_THAT(decide({1, 2, INFINITY}, above(0), 0.95).reason, HasSubstr("diverged"));
  const auto decision = decide(near_one, above(0), 0.95);
  ASSERT_TRUE(decision.interval);
  EXPECT_NEAR(decision.interval->low, 1 - 2.7764451 * 0.0790569 / std::sqrt(5.0), 1e-6);
  EXPECT_STREQ(name(Verdict::supported), "supported");
  EXPECT_STREQ(name(Verdict::refuted), "refuted");
  EXPECT_STREQ(name(Verdict::undecided), "undecided");
}

TEST(Verdicts, the_confidence_decides_what_is_supported) {
  const std::vector<double> values = {0.02, 0.10, 0.16, 0.05, 0.12};  // t = 3.5, between the quantiles of 0.95 and 0.99
  EXPECT_EQ(decide(values, above(0), 0.95).verdict, Verdict::supported);
  EXPECT_EQ(decide(values, above(0), 0.99).verdict, Verdict::undecided);
}

}  // namespace
}  // namespace moiety::registry
