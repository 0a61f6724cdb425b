#include <ATen/ops/ones_like.h>
#include <gtest/gtest.h>

#include <cmath>

#include "moiety/mixing_scheduler.h"
#include "moiety_testing/reports.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

const Domains two{{"a", "b"}, {30, 10}, 100};

std::unique_ptr<MixingScheduler> scheduler(std::map<std::string, Value> given = {}, const Domains& domains = two) {
  given["reference"] = StageInput{"mixing.reference"};
  auto s = testing::make<MixingScheduler>("doremi", std::move(given));
  if (!domains.names.empty()) s->start(domains);
  return s;
}

/// One window of two tokens for each of `domains`, with these losses; the reference's are 1.
Feedback said(std::vector<double> losses, std::vector<double> domains) {
  const auto windows = static_cast<std::int64_t>(domains.size());
  Feedback feedback;
  feedback.losses = testing::tensor(std::move(losses), {windows, 2});
  feedback.reference = at::ones_like(feedback.losses);
  feedback.domain = testing::tensor(std::move(domains), {windows}).to(at::kLong);
  return feedback;
}

/// α: what the loss factors say, for uniform sampling over `count` domains.
std::vector<double> weights(const MixingScheduler& s, double count) {
  auto factors = s.mixture({}).loss_factors;
  for (double& factor : factors) factor /= count;
  return factors;
}

TEST(DoReMi, one_update_in_closed_form) {
  const auto s = scheduler();
  EXPECT_EQ(weights(*s, 2), (std::vector<double>{0.5, 0.5}));
  s->feedback(said({1.3, 1.1, 1, 0.5}, {0, 1}));  // λ = (0.2, 0): −0.5 is clipped
  EXPECT_NEAR(weights(*s, 2)[0], 0.549784, 1e-6);
  EXPECT_NEAR(weights(*s, 2)[1], 0.450216, 1e-6);
}

TEST(DoReMi, tokens_are_clipped_one_by_one_and_a_domain_is_their_mean) {
  const auto s = scheduler({{"smoothing", 0.0}});
  // Domain a: excesses 0.4, max(−3, 0), 0, 0.8 over two windows: 0.3. Domain b: 0.1.
  s->feedback(said({1.4, -2, 1.1, 1.1, 1, 1.8}, {0, 1, 0}));
  EXPECT_NEAR(std::log(weights(*s, 2)[0] / weights(*s, 2)[1]), 0.2, 1e-6);
}

TEST(DoReMi, an_absent_domain_keeps_its_last_excess) {
  const auto s = scheduler({{"smoothing", 0.0}, {"step", 0.5}});
  s->feedback(said({1.2, 1.2, 1.6, 1.6}, {0, 1}));
  s->feedback(said({1.0, 1.0}, {0}));
  EXPECT_NEAR(std::log(weights(*s, 2)[1] / weights(*s, 2)[0]), 0.5 * (0.6 - 0.2) + 0.5 * 0.6, 1e-6);
}

TEST(DoReMi, windows_are_sampled_evenly_and_weights_enter_through_the_loss) {
  const auto s = scheduler({}, {{"a", "none", "b"}, {30, 0, 10}, 100});
  s->feedback(said({1.3, 1.1, 1, 0.5}, {0, 2}));
  const Mixture mixture = s->mixture({1, 10});
  EXPECT_EQ(mixture.shares, (std::vector<double>{0.5, 0, 0.5}));
  EXPECT_NEAR(mixture.loss_factors[0], 0.549784 / 0.5, 2e-6);

  const auto sized = scheduler({{"sample", std::int64_t{1}}});
  EXPECT_EQ(sized->mixture({}).shares, (std::vector<double>{0.75, 0.25}));
  EXPECT_NEAR(sized->mixture({}).loss_factors[0], 0.5 / 0.75, 1e-12);
  EXPECT_NEAR(sized->mixture({}).loss_factors[1], 0.5 / 0.25, 1e-12);
}

TEST(DoReMi, the_answer_is_the_mean_over_steps) {
  const auto s = scheduler({{"smoothing", 0.0}});
  testing::TestReport nothing("doremi"), report("doremi");
  s->report(nothing);
  EXPECT_TRUE(nothing.empty());
  double sum = 0, last = 0;
  for (int i = 1; i <= 4; ++i) {
    s->feedback(said({1.5, 1.5, 1, 1}, {0, 1}));
    last = 1 / (1 + std::exp(-0.5 * i));
    sum += last;
  }
  s->report(report);
  EXPECT_EQ(report.shares("weights")[0].first, "a");
  EXPECT_NEAR(report.shares("weights")[0].second, sum / 4, 1e-7);
  EXPECT_NEAR(report.shares("weights")[1].second, 1 - sum / 4, 1e-7);
  EXPECT_NEAR(report.shares("last_weights")[0].second, last, 1e-7);
  EXPECT_NEAR(report.value("weight_change"), last - sum / 4, 1e-7);
}

TEST(DoReMi, smoothing_keeps_every_domain_and_large_excesses_stay_finite) {
  const auto s = scheduler({{"smoothing", 0.1}, {"step", 1e4}});
  for (int i = 0; i < 5; ++i) s->feedback(said({9, 9, 1, 1}, {0, 1}));
  EXPECT_NEAR(weights(*s, 2)[0], 0.95, 1e-12);
  EXPECT_NEAR(weights(*s, 2)[1], 0.05, 1e-12);
}

TEST(DoReMi, needs_both_losses_and_says_what_is_wrong) {
  const auto s = scheduler();
  const Needs needs = s->needs();
  EXPECT_TRUE(needs.token_losses && needs.reference_losses && needs.domain_labels);
  Feedback without = said({1, 1}, {0});
  without.reference = at::Tensor();
  EXPECT_THROW(s->feedback(without), std::invalid_argument);
  EXPECT_THROW(s->feedback(said({1, 1}, {2})), std::invalid_argument);
  EXPECT_THROW(s->feedback(said({std::nan(""), 1}, {0})), std::runtime_error);
  Facts facts;
  facts.domain_windows = {5, 0};
  Problems problems;
  s->check(facts, problems);
  EXPECT_EQ(problems.list().size(), 1U);
}

TEST(DoReMi, T42_saved_and_loaded_it_goes_on_equal) {
  const auto losses = [](int i) { return said({1.1 + i % 3, 1, 1 + 0.3 * (i % 2), 1.2}, {0, 1}); };
  for (const bool state_first : {false, true}) {
    const auto whole = scheduler();
    for (int i = 0; i < 5; ++i) whole->feedback(losses(i));
    testing::TestArchive archive;
    whole->state(archive);
    archive.rewind();
    const auto resumed = scheduler({}, state_first ? Domains{} : two);
    resumed->state(archive);
    if (state_first) resumed->start(two);
    for (int i = 5; i < 12; ++i) {
      EXPECT_EQ(whole->mixture({i, 12}).loss_factors, resumed->mixture({i, 12}).loss_factors);
      whole->feedback(losses(i));
      resumed->feedback(losses(i));
    }
    testing::TestReport one("doremi"), other("doremi");
    whole->report(one);
    resumed->report(other);
    EXPECT_EQ(one.shares("weights"), other.shares("weights"));
    const auto another = scheduler({}, Domains{});
    archive.rewind();
    another->state(archive);
    EXPECT_THROW(another->start({{"a"}, {3}, 10}), std::invalid_argument);
  }
}

}  // namespace
}  // namespace moiety
