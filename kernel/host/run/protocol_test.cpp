#include "kernel/host/run/protocol.h"

#include <gtest/gtest.h>

#include <cmath>

namespace moiety::host {
namespace {

TEST(Protocol, every_message_is_read) {
  const auto progress = parse_message(R"({"progress":{"unit":"tokens","done":123,"total":456,"loss":5.5,"phase":"train"}})");
  ASSERT_TRUE(progress);
  EXPECT_EQ(std::get<Progress>(*progress).done, 123);
  EXPECT_EQ(std::get<Progress>(*progress).total, 456);
  EXPECT_EQ(std::get<Progress>(*progress).loss, 5.5);
  EXPECT_EQ(std::get<Progress>(*progress).unit, "tokens");
  const auto beat = parse_message(R"({"beat":{"component":"router/top-k@1","function":"route","seconds":0.25}})");
  ASSERT_TRUE(beat);
  EXPECT_EQ(std::get<Beat>(*beat).component, "router/top-k@1");
  EXPECT_EQ(std::get<Beat>(*beat).seconds, 0.25);
  const auto crash = parse_message(R"({"crash":{"signal":11,"component":"router/thrower@1","function":"route"}})");
  ASSERT_TRUE(crash);
  EXPECT_EQ(std::get<Crash>(*crash).signal, 11);
  const auto end = parse_message(
      R"({"end":{"state":"done","tokens":1200000,"flops":1e15,"wall_seconds":2.5,"cpu_seconds":3,"peak_memory":4096}})");
  ASSERT_TRUE(end);
  EXPECT_EQ(std::get<End>(*end).state, "done");
  EXPECT_EQ(std::get<End>(*end).tokens, 1200000);
  EXPECT_EQ(std::get<End>(*end).flops, 1e15);
}

TEST(Protocol, a_loss_that_is_not_finite_is_kept) {
  const auto progress = parse_message(R"({"progress":{"unit":"tokens","done":1,"total":2,"loss":"nan"}})");
  ASSERT_TRUE(progress);
  EXPECT_TRUE(std::isnan(*std::get<Progress>(*progress).loss));
  EXPECT_FALSE(std::get<Progress>(*parse_message(R"({"progress":{"done":1}})")).loss);
}

TEST(Protocol, a_stage_without_a_loss_says_zero) {
  for (const char* zero : {"0", "0.0", "-0.0"}) {
    const auto line = std::string(R"({"progress":{"unit":"items","done":1,"total":2,"phase":"evaluate","loss":)") + zero + "}}";
    EXPECT_FALSE(std::get<Progress>(*parse_message(line)).loss) << line;
  }
  EXPECT_EQ(std::get<Progress>(*parse_message(R"({"progress":{"done":1,"total":2,"loss":1e-9}})")).loss, 1e-9);
}

TEST(Protocol, what_is_not_of_the_protocol_is_passed_over) {
  for (const char* line : {"", "hello", "{", "{}", "[1]", R"({"end":3})", R"({"progress":{},"beat":{}})", R"({"other":{}})",
                           "{\"end\":{\"state\":\"do"})
    EXPECT_FALSE(parse_message(line)) << line;
  // Wrong types inside are absent, not fatal.
  EXPECT_EQ(std::get<End>(*parse_message(R"({"end":{"state":5,"tokens":"many","flops":1e300,"peak_memory":1e300}})")).tokens, 0);
}

TEST(Protocol, lines_arrive_in_any_pieces) {
  LineBuffer buffer;
  EXPECT_TRUE(buffer.feed("ab").empty());
  EXPECT_EQ(buffer.feed("c\nde\n\nf"), (std::vector<std::string>{"abc", "de", ""}));
  EXPECT_EQ(buffer.rest(), "f");
  EXPECT_EQ(buffer.rest(), "");
}

TEST(Protocol, an_endless_line_is_dropped_and_the_next_one_read) {
  LineBuffer buffer;
  const std::string much(1 << 19, 'x');
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(buffer.feed(much).empty());
  EXPECT_EQ(buffer.feed("tail\nnext\n"), (std::vector<std::string>{"next"}));
}

}  // namespace
}  // namespace moiety::host
