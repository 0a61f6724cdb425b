#include "kernel/data/corpus/documents.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "kernel/data/text/unicode.h"

namespace moiety::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kPlenty = 1 << 30;

/// A sentence of letters that no other number gives.
std::string sentence(int number) {
  std::string text = "Once there was an owl who counted";
  for (const char digit : std::to_string(number))
    text += fmt::format(" {}", "abcdefghij"[digit - '0']) + std::string(3, "klmnopqrst"[digit - '0']);
  return text + " stars over the old barn.";
}

std::string blocks(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += sentence(i) + "\n\n";
  return text;
}

TEST(Documents, they_end_at_blank_lines_and_stay_below_the_limit) {
  DocumentBuilder builder(4000);
  builder.add(blocks(0, 500), false, kPlenty);
  const auto documents = builder.finish();
  ASSERT_GT(documents.size(), 5u);
  for (const auto& document : documents) {
    EXPECT_LE(document.size(), 4000u);
    EXPECT_EQ(document.substr(0, 4), "Once");
    EXPECT_EQ(document.back(), '.');
  }
}

TEST(Documents, a_block_longer_than_a_document_is_cut_at_a_sentence) {
  std::string block;
  for (int i = 0; i < 300; ++i) block += sentence(i) + " ";
  DocumentBuilder builder(3000);
  builder.add(block, false, kPlenty);
  const auto documents = builder.finish();
  ASSERT_GT(documents.size(), 3u);
  for (const auto& document : documents) {
    EXPECT_LE(document.size(), 3000u);
    EXPECT_EQ(document.substr(0, 4), "Once");
  }
  DocumentBuilder endless(3000);
  endless.add(std::string(10000, 'a') + "é" + std::string(10000, 'b'), false, kPlenty);
  for (const auto& document : endless.finish()) EXPECT_TRUE(is_utf8(document) && document.size() <= 3000);
}

TEST(Documents, small_texts_are_packed) {
  DocumentBuilder builder(8000);
  for (int i = 0; i < 200; ++i) builder.add(sentence(i), false, kPlenty);
  const auto documents = builder.finish();
  EXPECT_LT(documents.size(), 10u);
  EXPECT_THAT(documents[0], HasSubstr("barn.\n\nOnce"));
}

TEST(Documents, junk_and_repetitions_are_dropped_and_counted) {
  DocumentBuilder builder(8000);
  builder.add(sentence(1) + "\n\n0x17 | 0x18 | 0x19 | 1234 5678 9012 3456 7890 1234\n\n" + sentence(1) + "\n\n" + sentence(2),
              false, kPlenty);
  const auto documents = builder.finish();
  EXPECT_THAT(documents, ElementsAre(sentence(1) + "\n\n" + sentence(2)));
  EXPECT_EQ(builder.counts().repeated, sentence(1).size());
  EXPECT_EQ(builder.counts().junk, 50u);
}

TEST(Documents, navigation_lines_are_kept_a_few_times_only) {
  DocumentBuilder builder(8000);
  for (int i = 0; i < 30; ++i) builder.add("Next page\n\n" + sentence(i), false, kPlenty);
  std::string all;
  for (const auto& document : builder.finish()) all += document;
  std::size_t times = 0;
  for (std::size_t at = all.find("Next page"); at != std::string::npos; at = all.find("Next page", at + 1)) ++times;
  EXPECT_EQ(times, 8u);
}

TEST(Documents, code_keeps_its_symbols_and_its_indentation) {
  DocumentBuilder builder(8000);
  const std::string code = "    x = {1: [2, 3], 4: (5, 6)}; y = x[1][0] + 7 * 8 / 9\n        return  x";
  builder.add(code, true, kPlenty);
  EXPECT_THAT(builder.finish(), ElementsAre(code));
}

TEST(Documents, no_more_is_kept_than_there_is_room_for) {
  DocumentBuilder builder(8000);
  const std::size_t kept = builder.add(blocks(0, 1000), false, 10000);
  EXPECT_GE(kept, 10000u);
  EXPECT_LT(kept, 10200u);
  EXPECT_EQ(builder.counts().kept, kept);
}

TEST(Split, documents_are_spread_evenly_in_exact_proportions) {
  const auto parts = split_documents(1000, {90, 5, 5});
  EXPECT_EQ(std::count(parts.begin(), parts.end(), Part::test), 50);
  EXPECT_EQ(std::count(parts.begin(), parts.end(), Part::valid), 50);
  const auto few = split_documents(100, {90, 5, 5});
  EXPECT_EQ(std::count(few.begin(), few.end(), Part::test), 5);
  EXPECT_EQ(split_documents(100, {90, 5, 5}), few);
}

TEST(Split, a_group_has_one_part_whatever_else_there_is) {
  std::array<int, 3> counts = {0, 0, 0};
  for (int i = 0; i < 10000; ++i) {
    const std::string group = std::to_string(i);
    const Part part = split_group(group, "s", {80, 10, 10});
    EXPECT_EQ(part, split_group(group, "s", {80, 10, 10}));
    ++counts[static_cast<std::size_t>(part)];
  }
  EXPECT_NEAR(counts[0], 8000, 200);
  EXPECT_NEAR(counts[2], 1000, 150);
}

TEST(Split, another_salt_is_another_split) {
  int differ = 0;
  for (int i = 0; i < 1000; ++i)
    differ += split_group(std::to_string(i), "a", {50, 25, 25}) != split_group(std::to_string(i), "b", {50, 25, 25});
  EXPECT_GT(differ, 300);
}

TEST(Order, it_depends_on_names_alone_and_is_no_alphabet) {
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back(fmt::format("file{:03}", i));
  const auto order = order_by_hash(names);
  std::vector<std::string> ordered;
  for (const auto i : order) ordered.push_back(names[i]);
  std::reverse(names.begin(), names.end());
  std::vector<std::string> again;
  for (const auto i : order_by_hash(names)) again.push_back(names[i]);
  EXPECT_EQ(ordered, again);
  EXPECT_FALSE(std::is_sorted(ordered.begin(), ordered.end()));
  EXPECT_EQ(std::set<std::string>(ordered.begin(), ordered.end()).size(), 100u);
}

}  // namespace
}  // namespace moiety::data
