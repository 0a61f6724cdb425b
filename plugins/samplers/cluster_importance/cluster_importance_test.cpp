#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "moiety/sampler.h"
#include "moiety_testing/reports.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

using Windows = std::vector<std::int64_t>;

/// Windows of two domains whose clusters come as `sizes` says, mixed; −1 for `without` more.
WindowTable table(const Windows& sizes, std::int64_t without = 0) {
  WindowTable t;
  t.clusters = static_cast<std::int64_t>(sizes.size());
  for (std::size_t c = 0; c < sizes.size(); ++c) t.cluster.insert(t.cluster.end(), static_cast<std::size_t>(sizes[c]), c);
  t.cluster.insert(t.cluster.end(), static_cast<std::size_t>(without), -1);
  Random(5).shuffle(t.cluster);
  const auto all = static_cast<std::int64_t>(t.cluster.size());
  t.first = {0, all / 3};
  t.count = {all / 3, all - all / 3};
  return t;
}

const WindowTable pool = table({400, 200, 100, 0, 50}, 250), target = table({10, 0, 30, 5, 5}, 3);

std::unique_ptr<Sampler> made(std::map<std::string, Value> given = {}) {
  given["clusters"] = StageInput{"sampler.clusters"};
  given["target"] = DataSelection{};
  return testing::make<Sampler>("cluster-importance", std::move(given));
}
std::unique_ptr<Sampler> started(std::map<std::string, Value> given = {}, std::uint64_t seed = 1) {
  auto sampler = made(std::move(given));
  sampler->start(pool, &target, Random(seed));
  return sampler;
}
Windows draw(Sampler& sampler, std::int64_t count) {
  Windows windows;
  sampler.draw({{count / 2, count - count / 2}, 0, 4}, windows);
  return windows;
}
Windows histogram(const Windows& windows) {
  Windows counts(5);
  for (const std::int64_t window : windows)
    ++counts.at(static_cast<std::size_t>(pool.cluster.at(static_cast<std::size_t>(window))));
  return counts;
}
std::string refusal(const Sampler& sampler, std::int64_t run_windows) {
  Problems problems;
  sampler.check_budget(run_windows, problems);
  return problems.list().empty() ? "" : problems.list()[0].parameter + ": " + problems.list()[0].message;
}

// P(c | target) is 10, 0, 30, 5, 5 of 50; cluster 3 is not in the pool, so 10, 30, 5 of 45 are left.
TEST(ClusterImportance, clusters_come_as_often_as_in_the_target) {
  const auto sampler = started();
  EXPECT_TRUE(sampler->across_domains());
  EXPECT_TRUE(sampler->needs().cluster_labels);
  const std::int64_t n = 45000;
  const Windows counts = histogram(draw(*sampler, n));
  const double expected[] = {10.0 / 45, 0, 30.0 / 45, 0, 5.0 / 45};
  for (std::size_t c = 0; c < 5; ++c) {
    const double sigma = std::sqrt(static_cast<double>(n) * expected[c] * (1 - expected[c]));
    EXPECT_NEAR(static_cast<double>(counts[c]), static_cast<double>(n) * expected[c], 3 * sigma) << c;
  }
}

TEST(ClusterImportance, windows_of_a_cluster_come_once_an_epoch_in_another_order_each) {
  const Windows windows = draw(*started(), 3000);
  std::map<std::int64_t, Windows> of;
  for (const std::int64_t window : windows) of[pool.cluster[static_cast<std::size_t>(window)]].push_back(window);
  EXPECT_EQ(of.size(), 3U);
  for (const auto& [cluster, list] : of) {
    const auto size = static_cast<std::size_t>(cluster == 0 ? 400 : cluster == 2 ? 100 : 50);
    ASSERT_GT(list.size(), size);
    for (std::size_t epoch = 0; (epoch + 1) * size <= list.size(); ++epoch) {
      const auto begin = list.begin() + static_cast<std::ptrdiff_t>(epoch * size);
      EXPECT_EQ(std::set<std::int64_t>(begin, begin + static_cast<std::ptrdiff_t>(size)).size(), size);
      if (epoch > 0) {
        EXPECT_FALSE(std::equal(begin, begin + static_cast<std::ptrdiff_t>(size), list.begin()));
      }
    }
  }
}

TEST(ClusterImportance, only_the_most_frequent_clusters_are_kept) {
  const Windows counts = histogram(draw(*started({{"keep", std::int64_t{2}}}), 4000));
  EXPECT_NEAR(static_cast<double>(counts[0]), 1000, 90);
  EXPECT_EQ(counts[0] + counts[2], 4000);
  EXPECT_EQ(histogram(draw(*started({{"keep", std::int64_t{1}}}), 400)), (Windows{0, 0, 400, 0, 0}));
}

TEST(ClusterImportance, smoothing_adds_windows_to_every_cluster) {
  const Windows counts = histogram(draw(*started({{"smoothing", 10.0}}), 9500));  // 20, 10, 40, –, 15 of 85
  EXPECT_NEAR(static_cast<double>(counts[1]), 9500.0 * 10 / 85, 3 * 32);
  EXPECT_EQ(counts[3], 0);
}

TEST(ClusterImportance, a_cluster_that_was_read_often_enough_is_closed) {
  const auto sampler = started({{"epochs", 1.5}});
  EXPECT_EQ(refusal(*sampler, 825), "");  // 600 + 150 + 75
  EXPECT_EQ(refusal(*sampler, 826),
            "epochs: the run has 826 windows, but 1.5 epochs of the 550 windows in the target's 3 clusters are 825");
  Windows counts = histogram(draw(*sampler, 800));
  EXPECT_EQ(counts[2], 150);
  EXPECT_LE(counts[4], 75);
  const Windows rest = histogram(draw(*sampler, 25));
  for (std::size_t c = 0; c < 5; ++c) counts[c] += rest[c];
  EXPECT_EQ(counts, (Windows{600, 0, 150, 0, 75}));
  EXPECT_THROW(draw(*sampler, 1), std::runtime_error);
  EXPECT_EQ(refusal(*started(), 1000000), "") << "without a cap everything can be read";
}

TEST(ClusterImportance, reports_repeats_and_the_effective_share) {
  const auto sampler = started();
  const Windows counts = histogram(draw(*sampler, 4500));
  testing::TestReport report("cluster-importance");
  sampler->report(report);
  EXPECT_NEAR(report.value("repeats"), static_cast<double>(counts[2]) / 100, 1e-12);
  EXPECT_NEAR(report.value("repeats"), 4500 * (30.0 / 45) / 100, 1.5);
  const double chi = std::pow(10.0 / 45, 2) / 0.4 + std::pow(30.0 / 45, 2) / 0.1 + std::pow(5.0 / 45, 2) / 0.05;
  EXPECT_NEAR(report.value("effective_share"), 1 / chi, 1e-12);
  EXPECT_NEAR(report.value("missing"), 0.1, 1e-12);
}

TEST(ClusterImportance, the_generic_histogram_itself_counts_fully) {
  const WindowTable all = table({40, 20, 10});
  auto sampler = made();
  sampler->start(all, &all, Random(1));
  testing::TestReport report("cluster-importance");
  sampler->report(report);
  EXPECT_NEAR(report.value("effective_share"), 1, 1e-12);
}

TEST(ClusterImportance, another_stream_is_another_draw_and_the_same_one_the_same) {
  EXPECT_EQ(draw(*started({}, 3), 200), draw(*started({}, 3), 200));
  EXPECT_NE(draw(*started({}, 3), 200), draw(*started({}, 4), 200));
}

TEST(ClusterImportance, the_size_of_a_step_does_not_matter) {
  const auto one = started(), other = started();
  Windows pieces;
  for (int i = 0; i < 50; ++i) {
    const Windows few = draw(*other, 1 + i % 7);
    pieces.insert(pieces.end(), few.begin(), few.end());
  }
  EXPECT_EQ(draw(*one, static_cast<std::int64_t>(pieces.size())), pieces);
}

TEST(ClusterImportance, what_is_missing_is_said) {
  const auto failure = [](const WindowTable& p, const WindowTable* t) -> std::string {
    try {
      made()->start(p, t, Random(1));
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  WindowTable plain = pool;
  plain.cluster.clear();
  EXPECT_EQ(failure(pool, nullptr), "it was given no target windows");
  EXPECT_EQ(failure(plain, &target), "the clusters of the pool's windows are not known");
  EXPECT_EQ(failure(pool, &plain), "the clusters of the target's windows are not known");
  const WindowTable other = table({3, 3}), noise = table({0, 0, 0, 0, 0}, 4), elsewhere = table({0, 0, 0, 7, 0});
  EXPECT_EQ(failure(pool, &other), "target and pool are of different clusterings");
  EXPECT_EQ(failure(pool, &noise), "no window of the target is in a cluster");
  EXPECT_EQ(failure(pool, &elsewhere), "the pool has no window of the target's clusters");
  Facts facts;
  facts.clusters = 4;
  Problems problems;
  made({{"keep", std::int64_t{5}}})->check(facts, problems);
  ASSERT_EQ(problems.list().size(), 1U);
  EXPECT_EQ(problems.list()[0].message, "the clustering has 4 clusters, not 5");
}

TEST(ClusterImportance, T42_saved_and_loaded_it_goes_on_equal) {
  for (const bool state_first : {false, true}) {
    for (int stop = 0; stop < 12; ++stop) {
      const auto whole = started({{"epochs", 2.0}}, 5);
      for (int i = 0; i < stop; ++i) draw(*whole, 70);
      testing::TestArchive archive;
      whole->state(archive);
      archive.rewind();
      const auto resumed = made({{"epochs", 2.0}});
      if (state_first) resumed->state(archive);
      resumed->start(pool, &target, Random(5));
      if (!state_first) resumed->state(archive);
      for (int i = 0; i < 3; ++i) ASSERT_EQ(draw(*whole, 70), draw(*resumed, 70)) << stop;
    }
  }
}

}  // namespace
}  // namespace moiety
