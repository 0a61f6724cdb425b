#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "moiety/sampler.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

using Windows = std::vector<std::int64_t>;

/// 60 windows of cluster 0, 30 of cluster 1, 3 of cluster 2, 7 without one, mixed over two domains.
WindowTable pool_of_three() {
  WindowTable t;
  t.clusters = 3;
  for (int i = 0; i < 100; ++i) t.cluster.push_back(i < 60 ? 0 : i < 90 ? 1 : i < 93 ? 2 : -1);
  Random(5).shuffle(t.cluster);
  t.first = {0, 40};
  t.count = {40, 60};
  return t;
}
const WindowTable pool = pool_of_three();

std::unique_ptr<Sampler> made() { return testing::make<Sampler>("by-cluster", {{"clusters", StageInput{"sampler.clusters"}}}); }
std::unique_ptr<Sampler> started(std::uint64_t seed = 1) {
  auto sampler = made();
  sampler->start(pool, nullptr, Random(seed));
  return sampler;
}
Windows draw(Sampler& sampler, std::int64_t count, std::int64_t micro_batch) {
  Windows windows;
  sampler.draw({{count / 3, count - count / 3}, 0, micro_batch}, windows);
  return windows;
}
std::int64_t cluster(std::int64_t window) { return pool.cluster.at(static_cast<std::size_t>(window)); }

TEST(ByCluster, a_micro_batch_is_of_one_cluster_and_clusters_come_by_size) {
  const auto sampler = started();
  EXPECT_TRUE(sampler->across_domains());
  std::vector<double> batches(3);
  const int steps = 2000;
  for (int step = 0; step < steps; ++step) {
    const Windows windows = draw(*sampler, 16, 4);
    ASSERT_EQ(windows.size(), 16U);
    for (std::size_t i = 0; i < 16; ++i) ASSERT_EQ(cluster(windows[i]), cluster(windows[i / 4 * 4]));
    for (std::size_t i = 0; i < 16; i += 4) ++batches.at(static_cast<std::size_t>(cluster(windows[i])));
  }
  const double expected[] = {60.0 / 93, 30.0 / 93, 3.0 / 93};
  for (std::size_t c = 0; c < 3; ++c) {
    const double sigma = std::sqrt(4 * steps * expected[c] * (1 - expected[c]));
    EXPECT_NEAR(batches[c], 4 * steps * expected[c], 3 * sigma) << c;
  }
}

TEST(ByCluster, windows_of_a_cluster_come_once_an_epoch) {
  const Windows windows = draw(*started(), 400, 4);
  Windows of_first;
  for (const std::int64_t window : windows)
    if (cluster(window) == 0) of_first.push_back(window);
  ASSERT_GT(of_first.size(), 120U);
  EXPECT_EQ(std::set<std::int64_t>(of_first.begin(), of_first.begin() + 60).size(), 60U);
  EXPECT_EQ(std::set<std::int64_t>(of_first.begin() + 60, of_first.begin() + 120).size(), 60U);
  EXPECT_NE(Windows(of_first.begin(), of_first.begin() + 60), Windows(of_first.begin() + 60, of_first.begin() + 120));
}

TEST(ByCluster, a_small_cluster_fills_a_micro_batch_with_its_next_epoch) {
  WindowTable small;
  small.clusters = 2;
  small.cluster = {1, -1, 1, 1};
  small.first = {0};
  small.count = {4};
  auto sampler = made();
  sampler->start(small, nullptr, Random(1));
  const Windows windows = [&] {
    Windows w;
    sampler->draw({{6}, 0, 6}, w);
    return w;
  }();
  EXPECT_EQ(std::multiset<std::int64_t>(windows.begin(), windows.end()), (std::multiset<std::int64_t>{0, 0, 2, 2, 3, 3}));
}

TEST(ByCluster, the_rest_of_a_step_is_a_shorter_micro_batch) {
  const auto sampler = started(7);
  for (int step = 0; step < 50; ++step) {
    const Windows windows = draw(*sampler, 10, 4);
    ASSERT_EQ(windows.size(), 10U);
    EXPECT_EQ(cluster(windows[4]), cluster(windows[7]));
    EXPECT_EQ(cluster(windows[8]), cluster(windows[9]));
    const Windows whole = draw(*sampler, 5, 0);
    for (const std::int64_t window : whole) EXPECT_EQ(cluster(window), cluster(whole[0])) << "no size: the whole step";
  }
}

TEST(ByCluster, what_is_missing_is_said) {
  WindowTable plain = pool;
  plain.cluster.clear();
  EXPECT_THROW(made()->start(plain, nullptr, Random(1)), std::invalid_argument);
  WindowTable noise = pool;
  noise.cluster.assign(100, -1);
  EXPECT_THROW(made()->start(noise, nullptr, Random(1)), std::invalid_argument);
}

TEST(ByCluster, T42_saved_and_loaded_it_goes_on_equal) {
  for (const bool state_first : {false, true}) {
    for (int stop = 0; stop < 12; ++stop) {
      const auto whole = started(5);
      for (int i = 0; i < stop; ++i) draw(*whole, 18, 4);
      testing::TestArchive archive;
      whole->state(archive);
      archive.rewind();
      const auto resumed = made();
      if (state_first) resumed->state(archive);
      resumed->start(pool, nullptr, Random(5));
      if (!state_first) resumed->state(archive);
      for (int i = 0; i < 10; ++i) ASSERT_EQ(draw(*whole, 18, 4), draw(*resumed, 18, 4)) << stop;
    }
  }
}

}  // namespace
}  // namespace moiety
