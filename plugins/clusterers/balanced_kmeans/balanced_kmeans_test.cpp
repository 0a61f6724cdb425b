#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "assignment.h"
#include "moiety/clusterer.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

using testing::make;

/// The least cost of giving n rows n different columns (Hungarian method with potentials, O(n³)): the plain reference.
double hungarian(const std::vector<std::vector<double>>& cost) {
  const std::size_t n = cost.size();
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> u(n + 1), v(n + 1);
  std::vector<std::size_t> row_of(n + 1, 0), way(n + 1);
  for (std::size_t i = 1; i <= n; ++i) {
    row_of[0] = i;
    std::size_t column = 0;
    std::vector<double> least(n + 1, infinity);
    std::vector<bool> used(n + 1, false);
    do {
      used[column] = true;
      const std::size_t row = row_of[column];
      double delta = infinity;
      std::size_t next = 0;
      for (std::size_t j = 1; j <= n; ++j) {
        if (used[j]) continue;
        const double reduced = cost[row - 1][j - 1] - u[row] - v[j];
        if (reduced < least[j]) least[j] = reduced, way[j] = column;
        if (least[j] < delta) delta = least[j], next = j;
      }
      for (std::size_t j = 0; j <= n; ++j) {
        if (used[j])
          u[row_of[j]] += delta, v[j] -= delta;
        else
          least[j] -= delta;
      }
      column = next;
    } while (row_of[column] != 0);
    do {
      const std::size_t before = way[column];
      row_of[column] = row_of[before];
      column = before;
    } while (column != 0);
  }
  double total = 0;
  for (std::size_t j = 1; j <= n; ++j) total += cost[row_of[j] - 1][j - 1];
  return total;
}

/// The optimum over all choices of which clusters get one point more, each by the Hungarian method on copied columns.
double reference_optimum(const std::vector<double>& cost, std::size_t n, std::size_t k) {
  std::vector<int> larger(k, 0);
  std::fill(larger.end() - static_cast<std::ptrdiff_t>(n % k), larger.end(), 1);
  double best = std::numeric_limits<double>::infinity();
  do {
    std::vector<std::vector<double>> square(n);
    for (std::size_t p = 0; p < n; ++p) {
      for (std::size_t c = 0; c < k; ++c)
        square[p].insert(square[p].end(), n / k + static_cast<std::size_t>(larger[c]), cost[p * k + c]);
    }
    best = std::min(best, hungarian(square));
  } while (std::next_permutation(larger.begin(), larger.end()));
  return best;
}

void expect_optimal(const std::vector<double>& cost, std::int64_t n, std::int64_t k, const std::string& what,
                    std::vector<double> prices = {}) {
  const auto labels = balanced_assignment(cost, n, k, prices);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(k), 0);
  double total = 0;
  for (std::int64_t p = 0; p < n; ++p) {
    const std::int64_t c = labels[static_cast<std::size_t>(p)];
    ASSERT_TRUE(c >= 0 && c < k);
    ++sizes[static_cast<std::size_t>(c)];
    total += cost[static_cast<std::size_t>(p * k + c)];
  }
  for (const std::int64_t size : sizes) EXPECT_TRUE(size == n / k || size == (n + k - 1) / k) << what << " size " << size;
  EXPECT_NEAR(total, reference_optimum(cost, static_cast<std::size_t>(n), static_cast<std::size_t>(k)),
              1e-9 * std::max(1.0, std::abs(total)))
      << what;
}

TEST(BalancedAssignment, costs_what_an_independent_optimum_costs) {
  Random random(3);
  for (int instance = 0; instance < 400; ++instance) {
    const std::int64_t k = 1 + random.below(6), n = k + random.below(25);
    std::vector<double> cost(static_cast<std::size_t>(n * k));
    const std::int64_t kind = random.below(4);
    for (double& value : cost) {
      value = kind == 0   ? random.uniform()
              : kind == 1 ? static_cast<double>(random.below(4))
              : kind == 2 ? random.normal()
                          : 1e6 * random.uniform();
    }
    // One cluster that everybody prefers makes long paths.
    if (instance % 3 == 0) {
      for (std::int64_t p = 0; p < n; ++p) cost[static_cast<std::size_t>(p * k)] -= 5;
    }
    expect_optimal(cost, n, k, "instance " + std::to_string(instance));
    // Whatever the prices it begins with, their own or nonsense, the end is as good.
    std::vector<double> prices(static_cast<std::size_t>(k + 1));
    for (double& price : prices) price = random.below(3) == 0 ? 0 : 3 * random.normal();
    expect_optimal(cost, n, k, "odd prices, instance " + std::to_string(instance), prices);
    balanced_assignment(cost, n, k, prices);
    expect_optimal(cost, n, k, "own prices, instance " + std::to_string(instance), prices);
  }
}

TEST(BalancedAssignment, all_equal_costs_and_chains_of_clusters) {
  expect_optimal(std::vector<double>(20 * 4, 1.0), 20, 4, "equal");
  // Clusters on a line, all points at one end: surplus must travel through every cluster.
  std::vector<double> line;
  for (int p = 0; p < 22; ++p) {
    for (int c = 0; c < 5; ++c) line.push_back((c * 10 - p * 0.1) * (c * 10 - p * 0.1));
  }
  expect_optimal(line, 22, 5, "line");
}

TEST(BalancedAssignment, larger_instances_agree_as_well) {
  Random random(4);
  for (int instance = 0; instance < 3; ++instance) {
    std::vector<double> cost(240 * 12);
    for (double& value : cost) value = random.uniform() * random.uniform();
    expect_optimal(cost, 240, 12, "large");
  }
}

Clusters fit(const at::Tensor& points, std::int64_t count, std::uint64_t seed, std::map<std::string, Value> options = {}) {
  return make<Clusterer>("balanced-kmeans", std::move(options))->fit(points, count, Random(seed));
}

std::vector<std::int64_t> sizes_of(const Clusters& c, std::int64_t count) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(count), 0);
  for (std::int64_t i = 0; i < c.labels.size(0); ++i) ++sizes[static_cast<std::size_t>(c.labels[i].item().toLong())];
  return sizes;
}

TEST(BalancedKMeans, sizes_differ_by_at_most_one) {
  for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{64, 8}, {65, 8}, {71, 8}, {8, 8}, {10, 1}, {100, 7}}) {
    const auto sizes = sizes_of(fit(testing::normal({n, 6}, Random(1)), k, 2), k);
    EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()) - *std::min_element(sizes.begin(), sizes.end()), n % k == 0 ? 0 : 1)
        << n << " " << k;
  }
}

TEST(BalancedKMeans, finds_separated_groups) {
  std::vector<at::Tensor> groups;
  for (std::uint64_t g = 0; g < 4; ++g)
    groups.push_back(testing::normal({16, 8}, Random(g), 0.05) + testing::normal({1, 8}, Random(100 + g), 5));
  const Clusters c = fit(at::cat(groups), 4, 0);
  for (std::int64_t g = 0; g < 4; ++g) {
    EXPECT_TRUE(c.labels.narrow(0, 16 * g, 16).eq(c.labels[16 * g]).all().item().toBool());
    EXPECT_TRUE(
        at::allclose(c.centres[c.labels[16 * g].item().toLong()], groups[static_cast<std::size_t>(g)].mean(0), 1e-4, 1e-5));
  }
}

TEST(BalancedKMeans, inertia_never_rises) {
  const at::Tensor points = testing::normal({120, 10}, Random(5));
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

TEST(BalancedKMeans, more_restarts_are_never_worse_and_the_best_counts) {
  const at::Tensor points = testing::normal({90, 5}, Random(6));
  double last = std::numeric_limits<double>::infinity(), first = 0;
  for (const std::int64_t restarts : {1, 2, 4, 8, 16}) {
    const double inertia = fit(points, 6, 1, {{"restarts", restarts}}).inertia;
    if (restarts == 1) first = inertia;
    EXPECT_LE(inertia, last);
    last = inertia;
  }
  EXPECT_LT(last, first);
}

TEST(BalancedKMeans, deterministic_for_a_stream) {
  const at::Tensor points = testing::normal({80, 5}, Random(7));
  EXPECT_TRUE(at::equal(fit(points, 8, 1).labels, fit(points, 8, 1).labels));
  EXPECT_FALSE(at::equal(fit(points, 8, 1, {{"restarts", std::int64_t{1}}}).labels,
                         fit(points, 8, 2, {{"restarts", std::int64_t{1}}}).labels));
}

TEST(BalancedKMeans, copies_of_one_point_are_still_divided_evenly) {
  const auto sizes = sizes_of(fit(testing::normal({1, 4}, Random(1)).expand({12, 4}), 3, 0), 3);
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{4, 4, 4}));
}

TEST(BalancedKMeans, impossible_points_are_refused) {
  EXPECT_THROW(fit(testing::normal({3, 2}, Random(1)), 4, 0), std::invalid_argument);
  EXPECT_THROW(fit(testing::normal({3, 2}, Random(1)), 0, 0), std::invalid_argument);
  EXPECT_THROW(fit(testing::normal({8, 2}, Random(1)).fill_(std::nan("")), 2, 0), std::invalid_argument);
}

}  // namespace
}  // namespace moiety
