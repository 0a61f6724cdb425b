#include "moiety/random.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace moiety {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers that Random123 ships (kat_vectors, philox4x32 10).
TEST(Random, philox_gives_the_published_known_answers) {
  EXPECT_EQ(Random::philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Random::philox({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Random::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, equal_keys_give_equal_numbers_and_forking_does_not_advance) {
  Random a(7), b(7);
  const Random first = a.fork("router");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.bits(), b.bits());
  Random again = a.fork("router"), one = first;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(one.bits(), again.bits());
}

TEST(Random, streams_of_different_keys_never_meet) {
  std::set<std::uint64_t> seen;
  std::size_t drawn = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Random root(seed);
    for (std::uint64_t index = 0; index < 20; ++index) {
      for (Random stream : {root.fork(index), root.fork("step").fork(index), root.fork(std::to_string(index))}) {
        seen.insert(stream.bits());
        ++drawn;
      }
    }
  }
  EXPECT_EQ(seen.size(), drawn);
}

TEST(Random, below_is_even_and_stays_below) {
  Random random(1);
  std::array<int, 6> counts{};
  const int draws = 60000;
  for (int i = 0; i < draws; ++i) ++counts.at(static_cast<std::size_t>(random.below(6)));
  double chi = 0;
  for (const int count : counts) chi += (count - draws / 6.0) * (count - draws / 6.0) / (draws / 6.0);
  EXPECT_LT(chi, 20.5);  // 0.999 quantile at 5 degrees of freedom
  EXPECT_EQ(random.below(1), 0);
}

TEST(Random, uniform_and_normal_have_their_moments) {
  Random random(2);
  const int draws = 200000;
  double sum = 0, square = 0, normal_sum = 0, normal_square = 0;
  for (int i = 0; i < draws; ++i) {
    const double u = random.uniform(), z = random.normal();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u, square += u * u, normal_sum += z, normal_square += z * z;
  }
  EXPECT_NEAR(sum / draws, 0.5, 0.004);
  EXPECT_NEAR(square / draws, 1.0 / 3, 0.004);
  EXPECT_NEAR(normal_sum / draws, 0.0, 0.01);
  EXPECT_NEAR(normal_square / draws, 1.0, 0.02);
}

TEST(Random, shuffle_is_a_permutation_and_every_first_item_is_as_likely) {
  std::array<int, 5> first{};
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    std::vector<int> items(5);
    std::iota(items.begin(), items.end(), 0);
    Random(seed).shuffle(items);
    EXPECT_EQ(std::set<int>(items.begin(), items.end()).size(), 5U);
    ++first.at(static_cast<std::size_t>(items[0]));
  }
  for (const int count : first) EXPECT_NEAR(count, 1000, 130);
}

}  // namespace
}  // namespace moiety
