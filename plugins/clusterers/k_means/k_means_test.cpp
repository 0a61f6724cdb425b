#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "moiety/clusterer.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

Clusters fit(const at::Tensor& points, std::int64_t count, std::uint64_t seed, std::map<std::string, Value> options = {}) {
  return testing::make<Clusterer>("k-means", std::move(options))->fit(points, count, Random(seed));
}

/// Groups of different sizes, far apart.
std::vector<at::Tensor> groups() {
  std::vector<at::Tensor> list;
  for (std::uint64_t g = 0; g < 5; ++g)
    list.push_back(testing::normal({4 + 12 * static_cast<std::int64_t>(g), 6}, Random(g), 0.05) +
                   testing::normal({1, 6}, Random(100 + g), 5));
  return list;
}

TEST(KMeans, finds_separated_groups_of_any_size) {
  const auto list = groups();
  const Clusters c = fit(at::cat(list), 5, 0);
  std::int64_t first = 0;
  std::vector<bool> seen(5, false);
  for (const at::Tensor& group : list) {
    const at::Tensor own = c.labels.narrow(0, first, group.size(0));
    const std::int64_t label = own[0].item().toLong();
    EXPECT_TRUE(own.eq(label).all().item().toBool());
    EXPECT_FALSE(seen[static_cast<std::size_t>(label)]);
    seen[static_cast<std::size_t>(label)] = true;
    const at::Tensor mean = group.mean(0);
    EXPECT_TRUE(at::allclose(c.centres[label], mean, 1e-4, 1e-5));
    EXPECT_NEAR(c.radii[label].item().toDouble(), (group - mean).norm(2, {1}).mean().item().toDouble(), 1e-4);
    first += group.size(0);
  }
}

// On a line the best division into intervals can be found by trying all of them.
TEST(KMeans, reaches_the_optimum_on_a_line) {
  const at::Tensor line = std::get<0>(testing::normal({14, 1}, Random(3)).sort(0));
  double best = std::numeric_limits<double>::infinity();
  for (std::int64_t a = 1; a < 13; ++a) {
    for (std::int64_t b = a + 1; b < 14; ++b) {
      double inertia = 0;
      for (const at::Tensor& part : {line.narrow(0, 0, a), line.narrow(0, a, b - a), line.narrow(0, b, 14 - b)})
        inertia += (part - part.mean()).square().sum().item().toDouble();
      best = std::min(best, inertia);
    }
  }
  EXPECT_NEAR(fit(line, 3, 1, {{"restarts", std::int64_t{40}}, {"tolerance", 0.0}}).inertia, best, 1e-5);
}

TEST(KMeans, inertia_never_rises) {
  const at::Tensor points = testing::normal({150, 10}, Random(5));
  double last = std::numeric_limits<double>::infinity();
  std::int64_t ran = 0;
  for (std::int64_t rounds = 1; rounds <= 30; ++rounds) {
    const Clusters c = fit(points, 7, 3, {{"max_iterations", rounds}, {"restarts", std::int64_t{1}}, {"tolerance", 0.0}});
    EXPECT_LE(c.inertia, last * (1 + 1e-12));
    last = c.inertia;
    ran = c.iterations;
    const at::Tensor own = c.centres.to(at::kDouble).index_select(0, c.labels);
    EXPECT_NEAR((points.to(at::kDouble) - own).square().sum().item().toDouble(), c.inertia, 1e-3);
  }
  EXPECT_GT(ran, 3) << "it converged before anything was seen";
}

TEST(KMeans, at_the_end_every_point_is_with_its_nearest_centre) {
  const auto k_means = testing::make<Clusterer>("k-means", {{"tolerance", 0.0}});
  const at::Tensor points = testing::normal({120, 4}, Random(6));
  const Clusters c = k_means->fit(points, 6, Random(1));
  EXPECT_TRUE(at::equal(k_means->assign(points, c), c.labels));
}

TEST(KMeans, more_restarts_are_never_worse) {
  const at::Tensor points = testing::normal({90, 5}, Random(6));
  double last = std::numeric_limits<double>::infinity();
  for (const std::int64_t restarts : {1, 2, 4, 8, 16}) {
    const double inertia = fit(points, 6, 1, {{"restarts", restarts}}).inertia;
    EXPECT_LE(inertia, last);
    last = inertia;
  }
}

TEST(KMeans, deterministic_for_a_stream) {
  const at::Tensor points = testing::normal({80, 5}, Random(7));
  EXPECT_TRUE(at::equal(fit(points, 8, 1).labels, fit(points, 8, 1).labels));
  EXPECT_TRUE(at::equal(fit(points, 8, 1).centres, fit(points, 8, 1).centres));
  EXPECT_FALSE(at::equal(fit(points, 8, 1, {{"restarts", std::int64_t{1}}}).labels,
                         fit(points, 8, 2, {{"restarts", std::int64_t{1}}}).labels));
}

TEST(KMeans, no_cluster_is_ever_empty) {
  const at::Tensor few = testing::normal({2, 4}, Random(1)).repeat({6, 1});  // two different points among twelve
  for (const std::int64_t count : {1, 2, 5, 12})
    EXPECT_EQ(fit(few, count, 0).labels.bincount({}, count).gt(0).sum().item().toLong(), count) << count;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Clusters c = fit(testing::normal({24, 2}, Random(seed)), 20, seed, {{"restarts", std::int64_t{1}}});
    EXPECT_EQ(c.labels.bincount({}, 20).gt(0).sum().item().toLong(), 20) << seed;
    EXPECT_TRUE(c.centres.isfinite().all().item().toBool());
  }
}

TEST(KMeans, a_number_of_its_own_serves_where_none_is_told) {
  const at::Tensor points = testing::normal({40, 3}, Random(2));
  const auto own = testing::make<Clusterer>("k-means", {{"count", std::int64_t{4}}});
  EXPECT_TRUE(own->abilities().any_count);
  EXPECT_EQ(own->fit(points, 0, Random(0)).centres.size(0), 4);
  EXPECT_EQ(own->fit(points, 3, Random(0)).centres.size(0), 3);
  EXPECT_FALSE(testing::make<Clusterer>("k-means")->abilities().any_count);
  EXPECT_TRUE(testing::make<Clusterer>("k-means")->abilities().fixed_count);
  EXPECT_FALSE(testing::make<Clusterer>("k-means")->abilities().equal_sizes);
}

TEST(KMeans, impossible_points_are_refused) {
  EXPECT_THROW(fit(testing::normal({3, 2}, Random(1)), 4, 0), std::invalid_argument);
  EXPECT_THROW(fit(testing::normal({3, 2}, Random(1)), 0, 0), std::invalid_argument);
  EXPECT_THROW(fit(testing::normal({8, 2}, Random(1)).fill_(std::nan("")), 2, 0), std::invalid_argument);
}

}  // namespace
}  // namespace moiety
