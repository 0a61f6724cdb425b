#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "moiety/clusterer.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

Clusters fit(const at::Tensor& points, std::map<std::string, Value> given = {}) {
  return testing::make<Clusterer>("dbscan", std::move(given))->fit(points, 0, Random(0));
}

/// `each` points around each of these centres.
at::Tensor blobs(const std::vector<std::vector<double>>& centres, std::int64_t each, double spread) {
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < centres.size(); ++i)
    parts.push_back(testing::normal({each, 2}, Random(3).fork(i), spread) + testing::tensor(centres[i], {1, 2}));
  return at::cat(parts);
}

TEST(Dbscan, finds_the_number_of_blobs_and_leaves_far_points_out) {
  const at::Tensor points = at::cat({blobs({{0, 0}, {10, 0}, {0, 10}}, 60, 0.5), testing::tensor({40, 40, -30, 25}, {2, 2})});
  const Clusters c = fit(points);
  ASSERT_EQ(c.centres.size(0), 3);
  for (std::int64_t i = 0; i < 180; ++i) {
    const auto label = c.labels[i].item().toLong();
    EXPECT_TRUE(label == i / 60 || label == -1) << i;
  }
  EXPECT_GT(c.labels.ge(0).sum().item().toLong(), 150);
  EXPECT_EQ(c.labels[180].item().toLong(), -1);
  EXPECT_EQ(c.labels[181].item().toLong(), -1);
}

TEST(Dbscan, centres_and_radii_are_those_of_the_members) {
  const at::Tensor points = blobs({{0, 0}, {10, 0}}, 50, 0.5);
  const Clusters c = fit(points);
  ASSERT_EQ(c.centres.size(0), 2);
  for (std::int64_t k = 0; k < 2; ++k) {
    const at::Tensor own = points.index_select(0, c.labels.eq(k).nonzero().flatten());
    EXPECT_LT((c.centres[k] - own.mean(0)).abs().max().item().toDouble(), 1e-5);
    EXPECT_NEAR(c.radii[k].item().toDouble(), (own - own.mean(0)).norm(2, {1}).mean().item().toDouble(), 1e-5);
  }
}

TEST(Dbscan, equals_the_definition_on_a_line) {
  // Radius 1.05 (in the line's own units): five points half a unit apart, a border point at 1.9, one far away.
  const at::Tensor line = testing::tensor({-1, -0.5, 0, 0.5, 1, 1.9, 9}, {7, 1});
  const double length = (line - line.mean()).abs().mean().item().toDouble();
  const Clusters c =
      fit(line, {{"radius", std::to_string(1.05 / length)}, {"min_points", std::int64_t{4}}, {"at_least", std::int64_t{1}}});
  const std::vector<std::int64_t> expected{0, 0, 0, 0, 0, 0, -1};
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(c.labels[static_cast<std::int64_t>(i)].item().toLong(), expected[i]) << i;
}

TEST(Dbscan, does_not_depend_on_the_scale_or_on_another_call) {
  const at::Tensor points = blobs({{0, 0}, {10, 0}, {0, 10}}, 40, 1.0);
  EXPECT_TRUE(at::equal(fit(points).labels, fit(points * 1000 + 5).labels));
  EXPECT_TRUE(at::equal(fit(points).labels, fit(points).labels));
}

TEST(Dbscan, says_what_it_tried_when_no_radius_will_do) {
  const at::Tensor one = blobs({{0, 0}}, 100, 1.0);
  try {
    fit(one, {{"at_least", std::int64_t{5}}, {"at_most", std::int64_t{6}}, {"min_points", std::int64_t{20}}});
    FAIL() << "was clustered";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("no radius near the knee gives 5 to 6 clusters; found: "), std::string::npos);
  }
  EXPECT_THROW(fit(one, {{"radius", std::string("0.0001")}}), std::runtime_error);
  EXPECT_THROW(testing::make<Clusterer>("dbscan")->fit(one, 3, Random(0)), std::invalid_argument);
}

TEST(Dbscan, refuses_a_radius_that_is_none) {
  for (const char* radius : {"knees", "-1", "0", "1x", ""}) {
    Problems problems;
    testing::make<Clusterer>("dbscan", {{"radius", std::string(radius)}})->check(Facts(), problems);
    EXPECT_EQ(problems.list().size(), 1U) << radius;
  }
}

}  // namespace
}  // namespace moiety
