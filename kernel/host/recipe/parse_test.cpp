#include "kernel/host/recipe/parse.h"

#include <gtest/gtest.h>

#include <random>

#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

std::string problem_with(const std::string& text) {
  Sources sources;
  sources.put(most_extends, "r.toml", text, {});
  Diagnostics diagnostics(sources);
  return parse_toml(text, most_extends, diagnostics) ? "" : diagnostics.text();
}

TEST(Parse, keys_and_values_know_their_places) {
  Sources sources;
  Diagnostics diagnostics(sources);
  const auto value = parse_toml("[a]\n  key = \"é\"\n", most_extends, diagnostics);
  ASSERT_TRUE(value.has_value());
  const Member& member = value->find("a")->members.at("key");
  EXPECT_EQ(member.key.line, 2);
  EXPECT_EQ(member.key.column, 3);
  EXPECT_EQ(member.key.length, 3);
  EXPECT_EQ(member.value.place.column, 9);
  EXPECT_EQ(member.value.place.length, 3);
}

TEST(Parse, limits_of_size_depth_and_text) {
  EXPECT_EQ(problem_with("a = 1\n"), "");
  EXPECT_NE(problem_with(std::string(most_recipe_bytes + 1, '#')).find("a recipe has at most"), std::string::npos);
  EXPECT_NE(problem_with("a = \"" + std::string(most_text_bytes + 1, 'x') + "\"").find("longer than"), std::string::npos);
  std::string dots = "a";
  for (int i = 0; i < 100000; ++i) dots += ".a";
  EXPECT_NE(problem_with(dots + " = 1").find("nested deeper"), std::string::npos);
  EXPECT_NE(problem_with("a = " + std::string(100000, '[')).find("nested deeper"), std::string::npos);
  EXPECT_NE(problem_with("[" + dots + "]").find("nested deeper"), std::string::npos);
  std::string tables = "a = 1";
  for (int i = 0; i < 40; ++i) tables = "a = { " + tables + " }";
  EXPECT_NE(problem_with(tables).find("nested deeper"), std::string::npos);
}

TEST(Parse, dots_and_brackets_inside_text_and_comments_are_no_nesting) {
  const std::string many(500, '.');
  EXPECT_EQ(
      problem_with("a = \"" + many + "\\\"" + many + "\" # " + many + std::string(100, '[') + "\nb = '''\n" + many + "'''\n"),
      "");
}

TEST(Parse, numbers_are_finite_and_dates_are_refused) {
  EXPECT_NE(problem_with("a = nan"), "");
  EXPECT_NE(problem_with("a = inf"), "");
  EXPECT_NE(problem_with("a = 1979-05-27"), "");
}

TEST(Parse, arguments_are_toml_or_bare_words) {
  const auto parsed = [](const char* text) { return parse_argument(text, {})->to_json(); };
  EXPECT_EQ(parsed("3"), 3);
  EXPECT_EQ(parsed("1e-3"), 0.001);
  EXPECT_EQ(parsed("true"), true);
  EXPECT_EQ(parsed("[1, 2]"), (nlohmann::json{1, 2}));
  EXPECT_EQ(parsed("{ use = \"top-k\", k = 2 }"), (nlohmann::json{{"use", "top-k"}, {"k", 2}}));
  EXPECT_EQ(parsed("\"a b\""), "a b");
  EXPECT_EQ(parsed("15k examples"), "15k examples");
  EXPECT_EQ(parsed("balanced-kmeans"), "balanced-kmeans");
  EXPECT_EQ(parsed("1\ny = 2"), "1\ny = 2") << "one argument is one value";
  EXPECT_FALSE(parse_argument("[1, 2", {}).has_value());
  EXPECT_FALSE(parse_argument("\"a", {}).has_value());
}

/// Random bytes, and valid recipes with random damage, give an error or a recipe: never a crash (also run under the sanitizers).
TEST(Parse, random_bytes_never_crash) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::string alphabet = "[]{}=.,\"'#\n\t ab1-_$@\\\xc3\xa9\x00\xff" + std::string("stage.do use extends unset ${}");
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (std::size_t length = below(80); text.size() < length;)
      text.push_back(below(3) == 0 ? static_cast<char>(random()) : alphabet[below(alphabet.size())]);
    problem_with(text);
    parse_argument(text, {});
    split_path(text);
  }
}

TEST(Recipe, damaged_recipes_never_crash) {
  std::mt19937 random(11);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::string good = testing::small_recipe();
  const std::vector<std::string> pieces = {"${stage.tuned.batch}",
                                           "${a}",
                                           "[define]\na = \"${a}\"\n",
                                           "\"",
                                           "]",
                                           "}",
                                           "= {",
                                           "from = \"score\"\n",
                                           "\n[arm.x]\n",
                                           "use =",
                                           "extends = \"dense\"\n",
                                           "0",
                                           ".",
                                           "@",
                                           "in",
                                           "(((",
                                           " > ",
                                           "unset = [\"stage\"]\n"};
  int errors = 0;
  for (int i = 0; i < 300; ++i) {
    std::string text = good;
    for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
      const std::size_t at = below(text.size()), length = std::min(below(12), text.size() - at);
      switch (below(3)) {
        case 0:
          text.erase(at, length);
          break;
        case 1:
          text.insert(at, pieces[below(pieces.size())]);
          break;
        default:
          text.replace(at, length, good.substr(below(good.size()), below(20)));
      }
    }
    const testing::Loaded loaded(text);
    if (!loaded.good()) {
      ++errors;
      EXPECT_NE(loaded.error().find("; nothing was run"), std::string::npos);
    }
  }
  EXPECT_GT(errors, 50);
}

}  // namespace
}  // namespace moiety::host
