#include "kernel/host/recipe/quantities.h"

#include <gtest/gtest.h>

namespace moiety::host {
namespace {

TEST(Quantities, sizes) {
  EXPECT_EQ(parse_size("1.2M"), 1200000);
  EXPECT_EQ(parse_size("64k"), 64000);
  EXPECT_EQ(parse_size("2G"), 2000000000);
  EXPECT_EQ(parse_size("17"), 17);
  EXPECT_EQ(parse_size("-3"), -3);
  EXPECT_EQ(parse_size("0.3k"), 300);
  for (const char* wrong : {"", "k", "1.5", "1.2345k", "1 k", "1K", "1kk", "1e400", "99999999G", "0x10", "nan"})
    EXPECT_FALSE(parse_size(wrong)) << wrong;
}

TEST(Quantities, budgets) {
  std::string problem;
  const auto text = [&](const char* written) {
    const auto budget = parse_budget(written, problem);
    return budget ? budget->text() : "refused";
  };
  EXPECT_EQ(text("1.2M tokens"), "1200000 tokens");
  EXPECT_EQ(text("586 steps"), "586 steps");
  EXPECT_EQ(text("1 epoch"), "1 epochs");
  EXPECT_EQ(text("0.5 epochs"), "0.5 epochs");
  EXPECT_EQ(text("15k examples"), "15000 examples");
  EXPECT_EQ(parse_budget("15k examples", problem)->to_json(), (nlohmann::json{{"amount", 15000}, {"unit", "examples"}}));
  EXPECT_EQ(text("flops of  dense"), "flops of dense");
  EXPECT_EQ(parse_budget("tokens of dense", problem)->to_json(), (nlohmann::json{{"unit", "tokens"}, {"of", "dense"}}));
  EXPECT_EQ(text("2.5e9 flops"), "2500000000 flops");
  EXPECT_EQ(parse_budget("1e15 flops", problem)->to_json(), (nlohmann::json{{"amount", 1000000000000000}, {"unit", "flops"}}));
  EXPECT_EQ(text("rest"), "rest");
  EXPECT_EQ(parse_budget("rest", problem)->to_json(), (nlohmann::json{{"amount", 1}, {"unit", "rest"}}));
  for (const char* wrong : {"", "tokens", "15k", "1.5 steps", "-1 steps", "0 tokens", "3 weeks", "seconds of dense",
                            "steps of dense", "flops of ", "0 flops"}) {
    EXPECT_EQ(text(wrong), "refused") << wrong;
    EXPECT_FALSE(problem.empty());
  }
}

TEST(Quantities, percents_and_points_of_a_training) {
  EXPECT_EQ(parse_percent("2%"), 0.02);
  EXPECT_EQ(parse_percent(" 0.7 % "), 0.007) << "as written in decimal, not 0.7 / 100";
  EXPECT_EQ(parse_percent("120%"), 1.2);
  for (const char* wrong : {"", "%", "2", "-2%", "1e1%", "2%%"}) EXPECT_FALSE(parse_percent(wrong)) << wrong;
  std::string problem;
  EXPECT_EQ(parse_point("10%", problem), "10%");
  EXPECT_EQ(parse_point("10.0 %", problem), "10%");
  EXPECT_EQ(parse_point("0.5%", problem), "0.5%");
  EXPECT_EQ(parse_point("400000 tokens", problem), "400k tokens");
  EXPECT_EQ(parse_point("1.5M tokens", problem), "1500k tokens");
  EXPECT_EQ(parse_point("7 tokens", problem), "7 tokens");
  for (const char* wrong : {"", "10", "101%", "5 steps", "tokens", "rest"}) {
    problem.clear();
    EXPECT_FALSE(parse_point(wrong, problem)) << wrong;
    EXPECT_FALSE(problem.empty());
  }
  EXPECT_EQ(point_folder("0.5%"), "0.5pct");
  EXPECT_EQ(point_folder("400k tokens"), "400k-tokens");
}

TEST(Quantities, layers_times_and_memory) {
  for (const char* rule : {"all", "last 2", "every 12"}) EXPECT_TRUE(is_layer_rule(rule)) << rule;
  for (const char* wrong : {"", "last", "last 0", "last -1", "every x", "first 2", "last 2 "})
    EXPECT_FALSE(is_layer_rule(wrong)) << wrong;
  EXPECT_EQ(parse_duration("10 min"), 600);
  EXPECT_EQ(parse_duration("1.5 h"), 5400);
  EXPECT_EQ(parse_duration("250 ms"), 0.25);
  for (const char* wrong : {"10", "0 s", "-1 s", "10 parsecs", ""}) EXPECT_FALSE(parse_duration(wrong)) << wrong;
  EXPECT_EQ(parse_memory("4 GiB"), 4294967296);
  EXPECT_EQ(parse_memory("1.5 MiB"), 1572864);
  for (const char* wrong : {"4", "4 G", "0 GiB", "99999999999 TiB"}) EXPECT_FALSE(parse_memory(wrong)) << wrong;
}

}  // namespace
}  // namespace moiety::host
