#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/data/testing/fixtures.h"

namespace moiety::data {
namespace {

using testing::ElementsAre;

constexpr std::uint32_t kMissing = 0xFFFFFFFF;

/// A character vector in XDR form; an empty line is NA.
std::string vector_of(const std::vector<std::string>& lines) {
  std::string bytes = big(16) + big(static_cast<std::uint32_t>(lines.size()));
  for (const auto& line : lines)
    bytes += big(0x00040009) + (line.empty() ? big(kMissing) : big(static_cast<std::uint32_t>(line.size())) + line);
  return bytes;
}

std::string object(const std::string& bytes) { return big(static_cast<std::uint32_t>(bytes.size())) + zlib_stream(bytes); }

std::vector<std::string> short_lines(const std::string& first) {
  std::vector<std::string> lines(100, "la");
  lines[0] = first;
  return lines;
}

TEST(Rstr, long_vectors_are_texts_and_short_ones_are_not) {
  const std::string database = object("X\n" + vector_of({"name", "class"})) +
                               object("X\n" + vector_of(short_lines("Chapter 1"))) +
                               object("X\n" + vector_of(short_lines("Chapter 2")) + vector_of(short_lines("Chapter 3")));
  const auto texts = texts_of(kRstr.extract("x.rdb", {{"x.rdb", database}}));
  ASSERT_EQ(texts.size(), 3u);
  EXPECT_EQ(texts[0].substr(0, 16), "Chapter 1\nla\nla\n");
  EXPECT_EQ(texts[2].substr(0, 9), "Chapter 3");
}

TEST(Rstr, missing_lines_are_empty_and_prose_is_unwrapped) {
  auto lines = std::vector<std::string>(100, "a line of a novel that is long enough to be wrapped");
  lines[50] = "";
  const auto texts = texts_of(kRstr.extract("x.rdb", {{"x.rdb", object(vector_of(lines))}}));
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_EQ(std::count(texts[0].begin(), texts[0].end(), '\n'), 2);
}

TEST(Rstr, a_truncated_database_is_an_error) {
  const std::string database = object(vector_of(short_lines("x")));
  EXPECT_FALSE(kRstr.extract("x.rdb", {{"x.rdb", database.substr(0, database.size() - 3)}}));
}

TEST(Rstr, lengths_that_lie_are_not_believed) {
  const std::string start = big(16) + big(100) + big(9);
  for (const std::uint32_t length : {0x7FFFFFFFu, 0xFFFFFFFEu, 1000u})
    EXPECT_THAT(texts_of(kRstr.extract("x.rdb", {{"x.rdb", object(start + big(length) + "text" + std::string(2000, 'x'))}})),
                ElementsAre());
  EXPECT_THAT(texts_of(kRstr.extract("x.rdb", {{"x.rdb", object(big(16) + big(0xFFFFFFFF))}})), ElementsAre());
}

TEST(Rstr, many_false_starts_end_quickly) {
  std::string bytes;
  for (int i = 0; i < 50000; ++i) bytes += big(16) + big(100) + big(9) + big(0);
  kRstr.extract("x.rdb", {{"x.rdb", object(bytes)}});
}

TEST(Rstr, damage_is_survived) { expect_survives_damage(kRstr, "x.rdb", {{"x.rdb", object(vector_of(short_lines("x")))}}); }

}  // namespace
}  // namespace moiety::data
