// The grammar; what claims mean in a recipe is covered by recipe/golden/claims_*.toml.
#include <gtest/gtest.h>

#include <random>

#include "kernel/host/claims/expression.h"
#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

std::optional<ParsedStatement> parsed_statement(const std::string& text) {
  ParseProblem problem;
  auto result = parse_statement(text, problem);
  EXPECT_TRUE(result.has_value()) << text << ": " << problem.message;
  return result;
}

TEST(ClaimGrammar, comparisons_with_margins) {
  const auto statement = parsed_statement("accuracy(emoe) > accuracy(dense) by 0.5pp");
  ASSERT_TRUE(statement);
  ASSERT_EQ(statement->sums.size(), 2U);
  EXPECT_EQ(statement->relations, (std::vector<std::string>{">"}));
  EXPECT_EQ(statement->sums[0]->metric.name, "accuracy");
  EXPECT_EQ(statement->sums[0]->metric.arm, "emoe");
  EXPECT_EQ(statement->by->value, 0.5);
  EXPECT_EQ(statement->by->unit, Margin::Unit::points);
  EXPECT_EQ(parsed_statement("a(x) ~ a(y) within 1%")->within->unit, Margin::Unit::percent);
  EXPECT_EQ(parsed_statement("a(x) <= a(y) within 0.02")->within->unit, Margin::Unit::plain);
}

TEST(ClaimGrammar, chains_and_ranges) {
  const auto chain = parsed_statement("a(x) > a(y) > a(z) >= a(w) within 0.2pp");
  EXPECT_EQ(chain->relations, (std::vector<std::string>{">", ">", ">="}));
  const auto range = parsed_statement("a(x) in 0..2");
  EXPECT_EQ(range->low->value, 0);
  EXPECT_EQ(range->high->value, 2);
  EXPECT_EQ(parsed_statement("a(x) in -0.6..-0.4")->low->value, -0.6);
  EXPECT_EQ(parsed_statement("a(x) in 1.5pp..4.5pp")->high->value, 4.5);
}

TEST(ClaimGrammar, arithmetic_binds_as_usual) {
  const auto statement = parsed_statement("abs(a(x) - a(y)) < 0.5 * abs(a(z)) + (1 - 2) * 3");
  const Expression& right = *statement->sums[1];
  EXPECT_EQ(right.kind, Expression::Kind::sum);
  EXPECT_EQ(right.left->kind, Expression::Kind::product);
  EXPECT_EQ(right.right->left->kind, Expression::Kind::difference);
  EXPECT_EQ(statement->sums[0]->kind, Expression::Kind::absolute);
  EXPECT_EQ(parsed_statement("a(x) - a(y) - a(z) > 0")->sums[0]->left->kind, Expression::Kind::difference) << "from the left";
}

TEST(ClaimGrammar, metrics_with_stage_arm_pins_and_odd_names) {
  const auto term = [](const std::string& text) { return parsed_statement(text + " > 1")->sums[0]->metric; };
  EXPECT_EQ(term("language.perplexity(top-3-of-6, domain=law)").stage, "language");
  EXPECT_EQ(term("language.perplexity(top-3-of-6, domain=law)").arm, "top-3-of-6");
  EXPECT_EQ(term("loss(a, progress=20%, size=24x4)").pins,
            (std::map<std::string, std::string>{{"progress", "20%"}, {"size", "24x4"}}));
  EXPECT_EQ(term("loss(\"an arm\", set='o o d')").arm, "an arm");
  EXPECT_EQ(term("loss(shift=0.0)").pins.at("shift"), "0.0");
  EXPECT_EQ(term("gain").arm, "");
  EXPECT_EQ(term("my-stage.valid_loss(a)").stage, "my-stage");
}

TEST(ClaimGrammar, problems_have_their_bytes) {
  ParseProblem problem;
  EXPECT_FALSE(parse_statement("a(x) > b(y) by 1kg", problem));
  EXPECT_EQ(problem.begin, 16U);
  EXPECT_FALSE(parse_statement("", problem));
  EXPECT_FALSE(parse_statement("a(x) >", problem));
  EXPECT_FALSE(parse_statement(std::string(1000, '('), problem));
  EXPECT_NE(problem.message.find("too deeply"), std::string::npos);
}

TEST(ClaimGrammar, random_text_never_crashes) {
  std::mt19937 random(3);
  const std::vector<std::string> words = {
      "a", "(", ")", "x", ",",    "=", "1",  "0.5", "..",   "in", "by", "within",         "pp", "%", ">", "<=", "~",
      "+", "-", "*", "/", "abs(", ".", "\"", " ",   "over", "é",  "\n", "99999999999e999"};
  int good = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (auto length = random() % 12; length > 0; --length)
      text += words[random() % words.size()] + (random() % 2 == 0 ? " " : "");
    ParseProblem problem;
    if (parse_statement(text, problem)) {
      ++good;
    } else {
      EXPECT_FALSE(problem.message.empty()) << text;
      EXPECT_LE(problem.begin, text.size()) << text;
    }
    parse_margin(text);
  }
  EXPECT_GT(good, 0);
}

TEST(Claims, stages_and_single_labels_are_filled_in) {
  const testing::Loaded loaded(testing::small_recipe() +
                               "[claim.chain]\nthat = ['perplexity(clustered) < perplexity(dense)', 'accuracy(clustered) > "
                               "accuracy(dense) > 0.1 by 1pp']\nmargin = '1%'\n");
  ASSERT_TRUE(loaded.good()) << loaded.error();
  const auto& claims = loaded.recipe().claims;
  ASSERT_EQ(claims.size(), 2U);
  EXPECT_EQ(claims[0].statements[0].left->metric.stage, "score");
  EXPECT_EQ(claims[0].statements[0].left->metric.bindings.at("set").value, "test");
  EXPECT_EQ(claims[0].statements[0].unit, "share");
  ASSERT_EQ(claims[1].statements.size(), 3U);
  EXPECT_EQ(claims[1].statements[1].text, "accuracy(clustered) > accuracy(dense) by 1pp");
  EXPECT_EQ(claims[1].statements[0].left->metric.bindings.at("domain").kind, Binding::Kind::mean)
      << "domains stay open: their mean";
}

TEST(Claims, pins_of_at_apply_to_what_varies_along_them) {
  const testing::Loaded loaded(testing::small_recipe_with("on = [\"test\"]", "on = [\"test\", \"ood\"]"),
                               {{false, "claim.better.at.set=ood"}});
  ASSERT_TRUE(loaded.good()) << loaded.error();
  EXPECT_EQ(loaded.recipe().claims[0].statements[0].right->metric.bindings.at("set").value, "ood");
}

}  // namespace
}  // namespace moiety::host
