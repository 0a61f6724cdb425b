#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "moiety/sampler.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

using Windows = std::vector<std::int64_t>;

std::unique_ptr<Sampler> started(const WindowTable& pool, std::uint64_t seed) {
  auto sampler = testing::make<Sampler>("uniform");
  sampler->start(pool, nullptr, Random(seed));
  return sampler;
}
Windows draw(Sampler& sampler, const std::vector<std::int64_t>& counts) {
  Windows windows;
  sampler.draw({counts, 0, 0}, windows);
  return windows;
}

const WindowTable pool{{0, 10, 13}, {10, 3, 1000}, {}, 0};

TEST(Uniform, every_window_once_an_epoch) {
  const auto sampler = started(pool, 1);
  for (int epoch = 0; epoch < 5; ++epoch) {
    Windows ten;
    for (int i = 0; i < 5; ++i) {
      const Windows two = draw(*sampler, {2, 0, 0});
      ten.insert(ten.end(), two.begin(), two.end());
    }
    std::sort(ten.begin(), ten.end());
    EXPECT_EQ(ten, (Windows{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
}

TEST(Uniform, epochs_have_different_orders_also_when_one_call_spans_them) {
  const auto sampler = started(pool, 1);
  const Windows three = draw(*sampler, {0, 0, 3000});
  const Windows first(three.begin(), three.begin() + 1000), second(three.begin() + 1000, three.begin() + 2000);
  EXPECT_NE(first, second);
  for (const Windows& epoch : {first, second}) {
    const std::set<std::int64_t> seen(epoch.begin(), epoch.end());
    EXPECT_EQ(seen.size(), 1000U);
    EXPECT_EQ(*seen.begin(), 13);
    EXPECT_EQ(*seen.rbegin(), 1012);
  }
}

TEST(Uniform, windows_come_domain_by_domain) {
  const Windows w = draw(*started(pool, 2), {3, 2, 4});
  ASSERT_EQ(w.size(), 9U);
  for (std::size_t i = 0; i < w.size(); ++i) {
    const std::size_t domain = i < 3 ? 0 : i < 5 ? 1 : 2;
    EXPECT_TRUE(w[i] >= pool.first[domain] && w[i] < pool.first[domain] + pool.count[domain]);
  }
}

// Arms that mix differently read each domain in the same order: they stay paired.
TEST(Uniform, order_of_a_domain_does_not_depend_on_the_others) {
  const auto one = started(pool, 3), other = started(pool, 3);
  Windows alone, mixed;
  for (int i = 0; i < 40; ++i) {
    const Windows a = draw(*one, {0, 0, 7});
    alone.insert(alone.end(), a.begin(), a.end());
    const Windows b = draw(*other, {i % 3, i % 2, 7});
    mixed.insert(mixed.end(), b.end() - 7, b.end());
  }
  EXPECT_EQ(alone, mixed);
}

TEST(Uniform, another_stream_is_another_order) {
  EXPECT_NE(draw(*started(pool, 1), {0, 0, 100}), draw(*started(pool, 2), {0, 0, 100}));
}

TEST(Uniform, T42_saved_and_loaded_it_goes_on_equal) {
  for (const bool state_first : {false, true}) {
    for (int stop = 0; stop < 25; ++stop) {
      const auto whole = started(pool, 5);
      for (int i = 0; i < stop; ++i) draw(*whole, {3, 1, 70});
      testing::TestArchive archive;
      whole->state(archive);
      archive.rewind();
      auto resumed = testing::make<Sampler>("uniform");
      if (state_first) resumed->state(archive);
      resumed->start(pool, nullptr, Random(5));
      if (!state_first) resumed->state(archive);
      for (int i = 0; i < 20; ++i) ASSERT_EQ(draw(*whole, {3, 1, 70}), draw(*resumed, {3, 1, 70})) << stop;
    }
  }
}

TEST(Uniform, first_place_is_even_over_streams) {
  std::vector<int> first(10, 0);
  for (std::uint64_t seed = 0; seed < 5000; ++seed)
    ++first.at(static_cast<std::size_t>(draw(*started(pool, seed), {1, 0, 0})[0]));
  for (const int count : first) EXPECT_NEAR(count, 500, 90);
}

TEST(Uniform, impossible_draws_are_refused) {
  const auto sampler = started({{0, 5}, {5, 0}, {}, 0}, 1);
  EXPECT_NO_THROW(draw(*sampler, {2, 0}));
  EXPECT_THROW(draw(*sampler, {0, 1}), std::invalid_argument);
  EXPECT_THROW(draw(*sampler, {1}), std::invalid_argument);
}

}  // namespace
}  // namespace moiety
