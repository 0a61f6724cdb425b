#include <ATen/ops/linalg_eigh.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "moiety/probe.h"
#include "moiety_testing/reports.h"
#include "moiety_testing/testing.h"
#include "moiety_testing/toy_model.h"

namespace moiety {
namespace {

using testing::exact;
using testing::Quadratic;
using testing::TestData;
using testing::TestReport;
using testing::ToyModel;

/// f(θ) = x · θ: a window's gradient is its x, and the model's tensors are pieces of θ.
ToyModel linear(const at::Tensor& rows) {
  ToyModel model(at::zeros({rows.size(1)}, at::kDouble), [rows](std::int64_t window) { return Quadratic{{}, {}, rows[window]}; });
  model.pieces_ = {{"embedding", 2}, {"layer0.attention.qkv", 3}, {"layer0.feed_forward.in", 4}, {"norm", 1}};
  return model;
}

/// Rows with a direction in common, from a stream.
at::Tensor rows(std::int64_t windows, std::uint64_t seed, double common = 0.7) {
  const at::Tensor noise = testing::normal({windows, 10}, Random(seed)).to(at::kDouble);
  return noise + common * testing::normal({10}, Random(seed + 100)).to(at::kDouble);
}

/// u of J Jᵀ with its sum not negative, and uᵀ J.
at::Tensor prevalent(const at::Tensor& j) {
  const at::Tensor vectors = std::get<1>(at::linalg_eigh(j.matmul(j.t())));
  const at::Tensor u = vectors.select(1, vectors.size(1) - 1);
  return (u.sum().item<double>() < 0 ? -u : u).matmul(j);
}
double cosine(const at::Tensor& a, const at::Tensor& b) { return (a.dot(b) / (a.norm() * b.norm())).item<double>(); }
at::Tensor pick(const at::Tensor& j, const Windows& windows) { return j.index_select(0, TestData::index(windows)); }

Windows numbers(std::int64_t from, std::int64_t to) {
  Windows list;
  for (std::int64_t i = from; i < to; ++i) list.push_back(i);
  return list;
}

std::unique_ptr<Probe> probe(std::map<std::string, Value> given = {}) {
  return testing::make<Probe>("gradient-consistency", std::move(given));
}

// With all windows of every set there is no draw, and the closed form is that of the rows themselves.
TEST(GradientConsistency, of_a_linear_model_in_closed_form) {
  const TestData data({"wiki", "law", "music"}, {20, 6, 8});
  const at::Tensor j = rows(34, 1);
  ToyModel model = linear(j);
  const auto p = probe({{"of", std::vector<std::string>{"music", "law"}},
                        {"windows", std::int64_t{100}},
                        {"scopes", std::vector<std::string>{"body", "layers", "all"}}});
  TestReport report("gradient-consistency");
  p->measure(model, data, report, Random(1));
  const std::map<std::string, std::pair<std::int64_t, std::int64_t>> columns{
      {"body", {2, 8}}, {"layer0.attention", {2, 3}}, {"layer0.feed_forward", {5, 4}}, {"all", {0, 10}}};
  for (const auto& [scope, place] : columns) {
    const at::Tensor inside = j.narrow(1, place.first, place.second), whole = prevalent(inside);
    const double tail = cosine(whole, prevalent(pick(inside, numbers(20, 34))));
    const double common = cosine(whole, prevalent(pick(inside, numbers(0, 20))));
    EXPECT_NEAR(report.value("layer_value", {{"layer", scope}, {"part", "tail"}}), tail, 1e-10) << scope;
    EXPECT_NEAR(report.value("layer_value", {{"layer", scope}, {"part", "common"}}), common, 1e-10) << scope;
    if (scope == "body") {
      EXPECT_NEAR(report.value("value", {{"part", "tail"}}), tail, 1e-10);
      EXPECT_NEAR(report.value("value", {{"part", "common"}}), common, 1e-10);
      EXPECT_EQ(report.value("unclear", {{"part", "tail"}}), 0);
    }
  }
  // The embedding is asked for alone: the body was known. No window is asked for twice in a call.
  for (const auto& [what, windows] : model.calls_) {
    EXPECT_EQ(windows.size(), 34U);
    EXPECT_EQ(std::set<std::int64_t>(windows.begin(), windows.end()).size(), 34U);
  }
  EXPECT_EQ(model.calls_.size(), 2U);
}

// A weighted gradient is uᵀ J without J: what the probe reads from Θ is its direction.
TEST(GradientConsistency, agrees_with_one_weighted_gradient) {
  const TestData data({"all", "tail"}, {12, 5});
  const at::Tensor j = rows(17, 4);
  const ToyModel model = linear(j);
  const auto g = [&](const Windows& windows) {
    const at::Tensor own = pick(j, windows).narrow(1, 2, 8);
    const at::Tensor vectors = std::get<1>(at::linalg_eigh(own.matmul(own.t())));
    const at::Tensor u = vectors.select(1, vectors.size(1) - 1).contiguous();
    return model.gradient(windows, u.sum().item<double>() < 0 ? -u : u, "body");
  };
  const auto p = probe({{"of", std::vector<std::string>{"tail"}}});
  TestReport report("gradient-consistency");
  p->measure(model, data, report, Random(1));
  EXPECT_NEAR(report.value("value", {{"part", "tail"}}), cosine(g(numbers(0, 17)), g(numbers(12, 17))), 1e-10);
}

TEST(GradientConsistency, the_tail_are_the_rarest_windows) {
  // Token 0 occurs 100 times, 1 50 times, 2 once; window i has i tokens 0 and the rest 2, and ends before a token that does not
  // count.
  TestData data({"text"}, {40});
  at::Tensor tokens = at::full({40, 41}, 2, at::kLong);
  for (std::int64_t i = 0; i < 40; ++i) tokens[i].narrow(0, 0, i).fill_(0);
  tokens.select(1, 40).fill_(1);
  data.set_tokens(tokens, exact({100, 50, 1}, {3}).to(at::kLong));
  const at::Tensor j = rows(40, 2);
  const ToyModel model = linear(j);
  const auto p = probe({{"share", 0.25}, {"windows", std::int64_t{40}}});
  TestReport report("gradient-consistency");
  p->measure(model, data, report, Random(3));
  const auto score = [](double first, double last) { return ((first + last) / 2 * 0.99 + 40 * 0.01) / 40; };
  EXPECT_NEAR(report.value("frequency", {{"part", "tail"}}), score(0, 9), 1e-12);
  EXPECT_NEAR(report.value("frequency", {{"part", "common"}}), score(10, 39), 1e-12);
  const at::Tensor inside = j.narrow(1, 2, 8);
  EXPECT_NEAR(report.value("value", {{"part", "tail"}}), cosine(prevalent(inside), prevalent(pick(inside, numbers(0, 10)))),
              1e-10);

  const auto bins = testing::make<Probe>("gradient-consistency-by-rarity", {{"bins", std::int64_t{4}}});
  TestReport by_bin("gradient-consistency-by-rarity");
  bins->measure(model, data, by_bin, Random(3));
  for (std::int64_t b = 0; b < 4; ++b) {
    const std::map<std::string, std::string> labels{{"bin", std::to_string(b + 1)}};
    EXPECT_NEAR(by_bin.value("value", labels), cosine(prevalent(inside), prevalent(pick(inside, numbers(10 * b, 10 * b + 10)))),
                1e-10);
    EXPECT_NEAR(by_bin.value("frequency", labels), score(10.0 * static_cast<double>(b), 10.0 * static_cast<double>(b) + 9),
                1e-12);
  }
}

// Rows in pairs (1, −1) times one direction: the eigenvector sums to zero, so a sign would be made up.
TEST(GradientConsistency, without_a_clear_sign_the_size_is_reported) {
  const TestData data({"all", "tail"}, {4, 2});
  at::Tensor j = at::zeros({6, 10}, at::kDouble);
  for (std::int64_t i = 0; i < 6; ++i) j[i][4] = i % 2 == 0 ? 1.0 : -1.0;
  const auto p = probe({{"of", std::vector<std::string>{"tail"}}});
  TestReport report("gradient-consistency");
  p->measure(linear(j), data, report, Random(1));
  EXPECT_EQ(report.value("unclear", {{"part", "tail"}}), 1);
  EXPECT_NEAR(report.value("value", {{"part", "tail"}}), 1, 1e-10);
}

TEST(GradientConsistency, draws_are_of_the_asked_size_and_of_the_stream) {
  const TestData data({"all", "tail"}, {400, 200});
  const at::Tensor j = rows(600, 7);
  const auto measured = [&](std::uint64_t seed) {
    ToyModel model = linear(j);
    const auto p = probe({{"of", std::vector<std::string>{"tail"}}, {"windows", std::int64_t{30}}});
    TestReport report("gradient-consistency");
    p->measure(model, data, report, Random(seed));
    EXPECT_LE(model.calls_[0].second.size(), 90U);
    EXPECT_GT(model.calls_[0].second.size(), 70U);
    return report.value("value", {{"part", "tail"}});
  };
  EXPECT_EQ(measured(1), measured(1));
  EXPECT_NE(measured(1), measured(2));
}

TEST(GradientConsistency, T42_the_peak_is_where_the_tail_was_largest_also_when_saved_between) {
  const TestData data({"all", "tail"}, {12, 5});
  auto p = probe({{"of", std::vector<std::string>{"tail"}}});
  std::vector<double> values;
  for (std::uint64_t point = 0; point < 5; ++point) {
    TestReport report("gradient-consistency");
    p->measure(linear(rows(17, 20 + point, 0.4)), data, report, Random(1));
    values.push_back(report.value("value", {{"part", "tail"}}));
    testing::TestArchive archive;
    p->state(archive);
    archive.rewind();
    p = probe({{"of", std::vector<std::string>{"tail"}}});
    p->state(archive);
  }
  const std::vector<std::string> points{"1%", "2%", "4%", "8%", "100%"};
  TestReport report("gradient-consistency");
  p->finish(points, report);
  const auto best = std::max_element(values.begin(), values.end()) - values.begin();
  EXPECT_EQ(report.texts("peak"), (std::vector<std::string>{points[static_cast<std::size_t>(best)]}));
  TestReport none("gradient-consistency");
  EXPECT_THROW(p->finish({"1%"}, none), std::logic_error);
  p->finish({}, none);
  EXPECT_TRUE(none.empty());
}

TEST(GradientConsistency, what_cannot_be_is_said) {
  const TestData data({"all", "tail"}, {12, 1});
  const ToyModel model = linear(rows(13, 1));
  TestReport report("gradient-consistency");
  EXPECT_THROW(probe({{"of", std::vector<std::string>{"tail"}}})->measure(model, data, report, Random(1)), std::invalid_argument);
  EXPECT_THROW(probe({{"of", std::vector<std::string>{"tial"}}})->measure(model, data, report, Random(1)), std::invalid_argument);
  EXPECT_THROW(probe({{"of", std::vector<std::string>{"all"}}})
                   ->measure(linear(at::zeros({13, 10}, at::kDouble)), TestData({"all", "b"}, {10, 3}), report, Random(1)),
               std::runtime_error);
  Facts facts;
  facts.domains = data.domains();
  Problems problems;
  probe({{"of", std::vector<std::string>{"tial"}}})->check(facts, problems);
  ASSERT_EQ(problems.list().size(), 1U);
  EXPECT_EQ(problems.list()[0].message, "there is no domain `tial`");
}

}  // namespace
}  // namespace moiety
