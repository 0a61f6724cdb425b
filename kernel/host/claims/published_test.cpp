// The grammar says every claim of published_claims.txt.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "kernel/base/files.h"
#include "kernel/host/claims/expression.h"

namespace moiety::host {
namespace {

struct PublishedLine {
  std::string id, key, text;  ///< of a measure: "measure", its name, its expression
};

std::vector<PublishedLine> published_lines() {
  const auto text = read_file(std::string(MOIETY_SOURCE_FOLDER) + "/kernel/host/claims/published_claims.txt");
  EXPECT_TRUE(text.has_value());
  std::vector<PublishedLine> lines;
  std::istringstream stream(text ? *text : "");
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line[0] == '#') continue;
    PublishedLine one;
    std::istringstream words(line);
    words >> one.id >> one.key >> std::ws;
    std::getline(words, one.text);
    lines.push_back(one);
  }
  return lines;
}

TEST(PublishedClaims, every_expression_is_one_of_the_grammar) {
  for (const auto& line : published_lines()) {
    ParseProblem problem;
    const bool good =
        line.key == "that" ? parse_statement(line.text, problem).has_value() : parse_expression(line.text, problem) != nullptr;
    EXPECT_TRUE(good) << line.id << ": " << line.text << "\nat byte " << problem.begin << ": " << problem.message;
  }
}

TEST(PublishedClaims, there_is_one_for_each_claim_that_no_test_decides) {
  std::set<std::string> ids;
  for (const auto& line : published_lines()) {
    if (line.id != "measure") ids.insert(line.id);
  }
  EXPECT_EQ(ids.size(), 132U - 11U);
}

TEST(PublishedClaims, statements_read_as_meant) {
  ParseProblem problem;
  const auto parsed = [&](const char* text) { return *parse_statement(text, problem); };
  EXPECT_EQ(parsed("after.flops(is, target*50) > after.flops(pn, target*50)").sums[0]->metric.times.at("target"), 50);
  const auto others = parsed("loss(branches, domain!=specialty) > loss(seed, domain!=specialty)");
  EXPECT_EQ(others.sums[0]->metric.excluded.at("domain"), "specialty");
  const auto agree = parsed("agree(predicted.change, change over start, shift, domain where predicted.p < 0.05) > 0.8");
  EXPECT_EQ(agree.sums[0]->over, (std::vector<std::string>{"start", "shift", "domain"}));
  EXPECT_EQ(agree.sums[0]->where_metric->metric.name, "p");
  const auto noise = parsed("exponent(predicted.noise over batches) in -0.6..-0.4");
  EXPECT_EQ(noise.low->value, -0.6);
  EXPECT_EQ(noise.high->value, -0.4);
  EXPECT_EQ(parsed("gain stays along share within 0.5pp").along, "share");
}

TEST(PublishedClaims, wrong_multipliers_are_told) {
  const auto message = [](const char* text) {
    ParseProblem problem;
    EXPECT_FALSE(parse_statement(text, problem)) << text;
    return problem.message;
  };
  EXPECT_EQ(message("flops(a, target*) > 1"), "behind `target*` stands a number above 0");
  EXPECT_EQ(message("flops(a, target*0) > 1"), "behind `target*` stands a number above 0");
  EXPECT_EQ(message("flops(a, target*-3) > 1"), "behind `target*` stands a number above 0");
  EXPECT_EQ(message("flops(a, target*3, target*4) > 1"), "`target` is multiplied twice");
}

}  // namespace
}  // namespace moiety::host
