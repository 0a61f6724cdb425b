#include "kernel/base/text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace moiety {
namespace {

TEST(Text, a_suggestion_names_what_is_near_or_all_there_is) {
  EXPECT_EQ(suggestion("tset", {"test", "valid"}), "did you mean `test`?");
  EXPECT_EQ(suggestion("zzzzzzz", {"test", "valid"}), "there are test, valid");
}

TEST(Text, near_names_finds_misspellings_and_nothing_far) {
  const std::vector<std::string> keys = {"capacity_factor", "k", "score", "losses"};
  EXPECT_EQ(did_you_mean("capcity_factor", keys), "did you mean `capacity_factor`?");
  EXPECT_EQ(did_you_mean("socre", keys), "did you mean `score`?");
  EXPECT_EQ(did_you_mean("temperature", keys), "");
}

TEST(Text, T29_at_most_three_near_names) { EXPECT_EQ(near_names("name", {"name1", "name2", "name3", "name4"}).size(), 3u); }

TEST(Text, printable_leaves_no_control_character) {
  EXPECT_EQ(printable("a\x1b[31mb\n\xC2\x9B"), "a\\x1b[31mb\\n\\u009b");
  EXPECT_EQ(printable("naïve"), "naïve");
}

TEST(Text, numbers_are_shortest_and_read_back) {
  EXPECT_EQ(number(1e-3), "0.001");
  EXPECT_EQ(number(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(number(3), "3");
  EXPECT_EQ(number(1e-9), "1e-09");
  EXPECT_EQ(number(std::nan("")), "nan");
  EXPECT_EQ(number(-HUGE_VAL), "-inf");
}

TEST(Text, durations) {
  EXPECT_EQ(duration(4.21), "4.2 s");
  EXPECT_EQ(duration(200), "3 min 20 s");
  EXPECT_EQ(duration(3900), "1 h 5 min");
}

}  // namespace
}  // namespace moiety
