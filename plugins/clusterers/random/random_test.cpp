#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "moiety/clusterer.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

Clusters fit(std::int64_t n, std::int64_t count, std::uint64_t seed) {
  return testing::make<Clusterer>("random")->fit(testing::normal({n, 3}, Random(1)), count, Random(seed));
}

TEST(RandomPartition, sizes_differ_by_at_most_one) {
  for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{64, 8}, {65, 8}, {71, 8}, {5, 5}, {5, 1}}) {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(k), 0);
    const at::Tensor labels = fit(n, k, 4).labels;
    for (std::int64_t i = 0; i < n; ++i) ++sizes.at(static_cast<std::size_t>(labels[i].item().toLong()));
    EXPECT_GE(*std::min_element(sizes.begin(), sizes.end()), n / k);
    EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()), (n + k - 1) / k);
  }
}

TEST(RandomPartition, deterministic_for_a_stream_and_different_for_another) {
  EXPECT_TRUE(at::equal(fit(64, 8, 1).labels, fit(64, 8, 1).labels));
  EXPECT_FALSE(at::equal(fit(64, 8, 1).labels, fit(64, 8, 2).labels));
}

// Each pair of points shares one of 4 clusters of 4 with probability 3/15.
TEST(RandomPartition, every_pair_is_as_likely_to_meet) {
  int near = 0, far = 0;
  const int draws = 3000;
  for (std::uint64_t seed = 0; seed < draws; ++seed) {
    const at::Tensor labels = fit(16, 4, seed).labels;
    near += labels[0].item().toLong() == labels[1].item().toLong();
    far += labels[2].item().toLong() == labels[13].item().toLong();
  }
  EXPECT_NEAR(near / static_cast<double>(draws), 0.2, 0.03);
  EXPECT_NEAR(far / static_cast<double>(draws), 0.2, 0.03);
}

TEST(RandomPartition, centres_are_means_and_inertia_is_to_them) {
  const at::Tensor points = testing::normal({20, 3}, Random(1));
  const Clusters c = testing::make<Clusterer>("random")->fit(points, 4, Random(1));
  double inertia = 0;
  for (std::int64_t k = 0; k < 4; ++k) {
    const at::Tensor own = points.index_select(0, c.labels.eq(k).nonzero().flatten());
    EXPECT_TRUE(at::allclose(c.centres[k], own.mean(0), 1e-5, 1e-6));
    inertia += (own - own.mean(0)).square().sum().item().toDouble();
  }
  EXPECT_NEAR(c.inertia, inertia, 1e-4);
}

}  // namespace
}  // namespace moiety
