#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "moiety/probe.h"
#include "moiety_testing/reports.h"
#include "moiety_testing/testing.h"
#include "moiety_testing/toy_model.h"
#include "student_t.h"

namespace moiety {
namespace {

using testing::exact;
using testing::Quadratic;
using testing::TestData;
using testing::TestReport;
using testing::ToyModel;

std::unique_ptr<Probe> probe(std::map<std::string, Value> given = {}) {
  given.emplace("domain", std::string("one"));
  given.emplace("shift", 0.2);
  given.emplace("length", Budget{10, "steps"});
  return testing::make<Probe>("lie-bracket", std::move(given));
}
TestReport measured(const Model& model, const Data& data, std::map<std::string, Value> given = {}, std::uint64_t seed = 1) {
  TestReport report("lie-bracket");
  probe(std::move(given))->measure(model, data, report, Random(seed));
  return report;
}
ToyModel plane(const TestData& data, double x, double y) {
  return ToyModel(exact({x, y}, {2}), [&data](std::int64_t window) { return testing::plane_loss(data.domain(window)); });
}
const std::map<std::string, std::string> one{{"domain", "one"}}, two{{"domain", "two"}};

struct Row {
  double x, y, s1, s2;
};
const Row table[] = {{0, 0, 6.0, -72.75}, {2, 2, 231.0, -141.75}, {-1, 1.5, 88.5, 120.1875}, {1.5, -1, -110.25, -282.9375}};

TEST(LieBracketProbe, scores_and_changes_of_the_plane) {
  const TestData data({"one", "two"}, {40, 60});
  for (const Row& row : table) {
    const TestReport report = measured(plane(data, row.x, row.y), data, {{"training.learning_rate", 0.01}});
    EXPECT_NEAR(report.value("score", one), row.s1, 1e-9);
    EXPECT_NEAR(report.value("score", two), row.s2, 1e-9);
    EXPECT_NEAR(report.value("change", one), 0.2 * 0.1 * 0.1 * row.s1, 1e-10) << "shift times squared time times score";
    EXPECT_LT(report.value("p", one), 1e-6) << "nothing is left to chance here";
    const TestReport other = measured(plane(data, row.x, row.y), data, {{"domain", std::string("two")}, {"shift", -0.2}});
    EXPECT_NEAR(other.value("score", one), -row.s1, 1e-9) << "the bracket changes its sign with the domains";
    EXPECT_NEAR(other.value("change", one), 0.2 * 0.01 * 0.01 * row.s1, 1e-12);
  }
}

// The prediction against the shifted training itself: plain gradient descent, a short block.
TEST(LieBracketProbe, predicts_what_shifted_training_does) {
  const TestData data({"one", "two"}, {40, 60});
  const double rate = 1e-5;
  const int half = 100;
  for (const Row& row : table) {
    const auto losses_after = [&](double shift) {
      at::Tensor point = exact({row.x, row.y}, {2});
      for (int i = 0; i < 2 * half; ++i) {
        const double share = 0.5 + (i < half ? shift : -shift);
        point = point -
                rate * (share * testing::plane_loss(0).gradient(point) + (1 - share) * testing::plane_loss(1).gradient(point));
      }
      return std::array<double, 2>{testing::plane_loss(0).value(point), testing::plane_loss(1).value(point)};
    };
    const auto shifted = losses_after(0.3), constant = losses_after(0);
    const TestReport report = measured(plane(data, row.x, row.y), data,
                                       {{"shift", 0.3},
                                        {"length", Budget{100 * 7, "examples"}},
                                        {"training.batch", std::int64_t{7}},
                                        {"training.learning_rate", rate}});
    EXPECT_NEAR((shifted[0] - constant[0]) / report.value("change", one), 1, 0.05);
    EXPECT_NEAR((shifted[1] - constant[1]) / report.value("change", two), 1, 0.05);
  }
}

TEST(LieBracketProbe, lengths_in_all_units_are_the_same_time) {
  TestData data({"one", "two"}, {40, 60});
  data.set_tokens(at::zeros({100, 33}, at::kLong), at::zeros({1}, at::kLong));
  const ToyModel model = plane(data, 2, 2);
  const auto change = [&](const Budget& length) { return measured(model, data, {{"length", length}}).value("change", one); };
  EXPECT_NEAR(change({50, "steps"}), change({800, "examples"}), 1e-12);
  EXPECT_NEAR(change({50, "steps"}), change({25600, "tokens"}), 1e-12);
}

TEST(LieBracketProbe, preconditioned) {
  const TestData data({"one", "two"}, {40, 60});
  ToyModel model = plane(data, 0, 0);
  EXPECT_THROW(measured(model, data, {{"bracket", std::int64_t{1}}}), std::invalid_argument);
  const at::Tensor p = model.preconditioner_ = exact({2, 0.5}, {2});
  const Quadratic first = testing::plane_loss(0), second = testing::plane_loss(1);
  const at::Tensor g1 = first.gradient(model.point_), g2 = second.gradient(model.point_);
  const at::Tensor bracket = p * (second.hessian.matmul(p * g1) - first.hessian.matmul(p * g2));
  const TestReport report = measured(model, data, {{"bracket", std::int64_t{1}}});
  EXPECT_NEAR(report.value("score", one), g1.dot(bracket).item<double>(), 1e-9);
  EXPECT_NEAR(report.value("score", two), g2.dot(bracket).item<double>(), 1e-9);
  EXPECT_NEAR(measured(model, data).value("score", one), 6, 1e-9) << "plain does not look at it";
}

/// Domains one, two, three, empty, with noise in the windows' slopes that is zero on average.
struct Three {
  explicit Three(double noise_ = 0) : data({"one", "two", "three", "empty"}, {200, 400, 100, 0}), noise(noise_) {
    for (std::uint64_t d = 0; d < 3; ++d) {
      const at::Tensor root = testing::normal({5, 5}, Random(d)).to(at::kDouble);
      losses[d] = {root.matmul(root.t()), testing::normal({5}, Random(9 + d)).to(at::kDouble), {}};
    }
  }
  ToyModel model() const {
    return ToyModel(testing::normal({5}, Random(99)).to(at::kDouble), [this](std::int64_t window) {
      Quadratic f = losses[data.domain(window)];
      f.slope = testing::normal({5}, Random(static_cast<std::uint64_t>(window) + 1000), noise).to(at::kDouble);
      return f;
    });
  }
  TestData data;
  double noise;
  Quadratic losses[3];
};

// Σ_i Δ_i ⟨g, [v_i, V]⟩ of n domains, with Δ_1 = 1 and Δ_j = −w_j / (1 − w_1), is the bracket of 1 with the rest.
TEST(LieBracketProbe, one_against_the_rest_is_the_direction_of_n_domains) {
  const Three three;
  const ToyModel model = three.model();
  const double w[] = {0.5, 0.2, 0.3};
  at::Tensor g[3], g_mix = at::zeros({5}, at::kDouble), h_mix = at::zeros({5, 5}, at::kDouble);
  for (int d = 0; d < 3; ++d) {
    g[d] = three.losses[d].gradient(model.point_);
    g_mix = g_mix + w[d] * g[d];
    h_mix = h_mix + w[d] * three.losses[d].hessian;
  }
  at::Tensor direction = at::zeros({5}, at::kDouble);
  for (int i = 0; i < 3; ++i)
    direction = direction + (i == 0 ? 1 : -w[i] / (1 - w[0])) * (h_mix.matmul(g[i]) - three.losses[i].hessian.matmul(g_mix));
  const TestReport report = measured(model, three.data, {{"weights", Shares{{"one", 0.5}, {"two", 0.2}, {"three", 0.3}}}});
  for (int k = 0; k < 3; ++k)
    EXPECT_NEAR(report.value("score", {{"domain", three.data.domains()[static_cast<std::size_t>(k)]}}),
                g[k].dot(direction).item<double>(), 1e-9);
  EXPECT_EQ(report.metrics(), 12U) << "a domain without windows is left out";
  // By size, two has four times the share of three.
  const at::Tensor rest_g = 0.8 * g[1] + 0.2 * g[2], rest_h = 0.8 * three.losses[1].hessian + 0.2 * three.losses[2].hessian;
  EXPECT_NEAR(measured(model, three.data).value("score", one),
              g[0].dot(rest_h.matmul(g[0]) - three.losses[0].hessian.matmul(rest_g)).item<double>(), 1e-9);
}

TEST(LieBracketProbe, windows_are_used_for_one_purpose_in_one_replicate) {
  const Three three(0.1);
  const ToyModel model = three.model();
  measured(model, three.data, {{"batches", std::int64_t{20}}, {"batch", std::int64_t{3}}, {"replicates", std::int64_t{4}}});
  std::set<std::int64_t> seen;
  std::size_t used = 0;
  for (const auto& call : model.calls_) {
    seen.insert(call.second.begin(), call.second.end());
    used += call.second.size();
  }
  EXPECT_EQ(seen.size(), used);
  EXPECT_EQ(used, 3U * 4 * 3 * 5) << "of 60 windows 5 for each of three purposes in each of four replicates";
  EXPECT_EQ(model.calls_.size(), 4U * (4 + 3));
}

// Equal losses have no bracket; what is measured is noise, and p must say so: below 0.05 in one of twenty.
TEST(LieBracketProbe, p_is_small_as_often_as_it_says_when_there_is_nothing) {
  const TestData data({"one", "two"}, {60, 60});
  int small = 0;
  const int trials = 400;
  for (std::uint64_t trial = 0; trial < trials; ++trial) {
    const ToyModel model(exact({1, 1}, {2}), [trial](std::int64_t window) {
      Quadratic f = testing::plane_loss(0);
      f.slope = testing::normal({2}, Random(trial).fork(static_cast<std::uint64_t>(window)), 0.3).to(at::kDouble);
      return f;
    });
    const TestReport report = measured(model, data, {{"batches", std::int64_t{10}}});
    small += report.value("p", one) < 0.05 ? 1 : 0;
    EXPECT_NEAR(report.value("p", one), bracket::p_of_t(report.value("t", one), 4), 1e-12);
  }
  EXPECT_NEAR(small, 20, 14);
}

TEST(LieBracketProbe, a_shift_of_nothing_changes_nothing_for_sure) {
  const Three three(0.1);
  const TestReport report = measured(three.model(), three.data, {{"shift", 0.0}});
  EXPECT_EQ(report.value("change", one), 0);
  EXPECT_EQ(report.value("p", one), 1);
  EXPECT_NE(report.value("score", one), 0);
}

TEST(LieBracketProbe, the_same_stream_gives_the_same_and_another_one_another) {
  const Three three(0.5);
  const auto score = [&](std::uint64_t seed) { return measured(three.model(), three.data, {}, seed).value("score", one); };
  EXPECT_EQ(score(1), score(1));
  EXPECT_NE(score(1), score(2));
}

TEST(LieBracketProbe, students_t) {
  EXPECT_NEAR(bracket::p_of_t(1, 1), 0.5, 1e-12);
  EXPECT_NEAR(bracket::p_of_t(2.776445105, 4), 0.05, 1e-9);
  EXPECT_NEAR(bracket::p_of_t(-3.249835542, 9), 0.01, 1e-9);
  EXPECT_NEAR(bracket::p_of_t(0, 7), 1, 1e-12);
  EXPECT_NEAR(bracket::p_of_t(1.959963985, 1e7), 0.05, 1e-6);
  EXPECT_NEAR(bracket::p_of_t(50, 99) / 4.595365899e-72, 1, 1e-8);  // by numerical integration
  EXPECT_EQ(bracket::p_of_t(std::numeric_limits<double>::infinity(), 4), 0);
}

TEST(LieBracketProbe, what_cannot_be_is_said) {
  const auto refusals = [](std::map<std::string, Value> given, const std::vector<std::string>& names) {
    Facts facts;
    facts.domains = names;
    Problems problems;
    probe(std::move(given))->check(facts, problems);
    std::string all;
    for (const auto& problem : problems.list()) all += problem.parameter + ": " + problem.message + "\n";
    return all;
  };
  EXPECT_EQ(refusals({}, {"one", "two"}), "");
  EXPECT_EQ(refusals({}, {}), "");
  EXPECT_EQ(refusals({}, {"one"}), "domain: there is no other domain to make room\n");
  EXPECT_EQ(refusals({{"domain", std::string("ten")}, {"length", Budget{1, "epochs"}}, {"weights", Shares{{"six", -1}}}},
                     {"one", "two"}),
            "domain: there is no domain `ten`\nweights: there is no domain `six`\n"
            "weights: the share of `six` must be a number of at least 0\n"
            "length: must be in tokens, examples (windows) or steps, but is in epochs\n");
  const TestData small({"one", "two"}, {40, 14});
  try {
    measured(plane(small, 0, 0), small);
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "domain two has 14 windows, and batches say 600, but 5 replicates of three need 15");
  }
  const TestData alone({"one", "two"}, {40, 0});
  EXPECT_THROW(measured(plane(alone, 0, 0), alone), std::invalid_argument);
  EXPECT_THROW(measured(plane(small, 0, 0), small, {{"domain", std::string("ten")}}), std::invalid_argument);
}

}  // namespace
}  // namespace moiety
