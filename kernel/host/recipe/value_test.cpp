#include "kernel/host/recipe/value.h"

#include <gtest/gtest.h>

#include "kernel/host/recipe/parse.h"
#include "kernel/host/recipe/toml_text.h"

namespace moiety::host {
namespace {

Value parsed(const std::string& text) {
  Sources sources;
  Diagnostics diagnostics(sources);
  auto value = parse_toml(text, most_extends, diagnostics);
  EXPECT_TRUE(value.has_value()) << diagnostics.text();
  return value ? *value : Value::table();
}

nlohmann::json merged(const std::string& base, const std::string& patch) {
  Value result = parsed(base);
  merge(result, parsed(patch));
  return result.to_json();
}

TEST(Merge, tables_merge_by_key_values_and_lists_replace) {
  EXPECT_EQ(merged("a.x = 1\na.y = [1, 2]\n", "a.y = [3]\na.z = 4\n"), (nlohmann::json{{"a", {{"x", 1}, {"y", {3}}, {"z", 4}}}}));
}

TEST(Merge, T21_a_table_with_use_replaces_the_whole_component) {
  EXPECT_EQ(merged("router = { use = 'avg-k', k = 8 }", "router = { use = 'top-k' }"),
            (nlohmann::json{{"router", {{"use", "top-k"}}}}));
  EXPECT_EQ(merged("router = { use = 'avg-k', k = 8 }", "router.k = 4"),
            (nlohmann::json{{"router", {{"use", "avg-k"}, {"k", 4}}}}));
  EXPECT_EQ(merged("router = { use = 'avg-k', k = 8 }", "router = 'soft'"), (nlohmann::json{{"router", "soft"}}));
}

TEST(Merge, a_parameter_over_a_component_written_as_its_name_changes_that_component) {
  EXPECT_EQ(merged("router = 'avg-k'", "router.k = 4"), (nlohmann::json{{"router", {{"use", "avg-k"}, {"k", 4}}}}));
  EXPECT_EQ(merged("router = 'avg-k'", "router = {}"), (nlohmann::json{{"router", "avg-k"}}));
}

TEST(Merge, removing_a_path_tells_whether_something_was_there) {
  Value value = parsed("a.b.c = 1\na.d = 2\n");
  EXPECT_TRUE(remove_path(value, {"a", "b"}));
  EXPECT_FALSE(remove_path(value, {"a", "b"}));
  EXPECT_FALSE(remove_path(value, {"x", "y"}));
  EXPECT_EQ(value.to_json(), (nlohmann::json{{"a", {{"d", 2}}}}));
}

TEST(Paths, dotted_keys_with_quotes) {
  EXPECT_EQ(split_path("a.b-c.\"d e\".'f'"), (std::vector<std::string>{"a", "b-c", "d e", "f"}));
  EXPECT_EQ(split_path(" a . b "), (std::vector<std::string>{"a", "b"}));
  for (const char* wrong : {"", ".", "a.", ".a", "a..b", "a b", "a.\"b", "a=b", "\"\""})
    EXPECT_TRUE(split_path(wrong).empty()) << wrong;
  EXPECT_EQ(join_path({"a", "d e"}), "a.\"d e\"");
}

TEST(TomlText, what_is_written_reads_back_as_the_same) {
  const std::string text = R"(
a = [1, 2.5, "x", true, { b = 'y', c = {} }]
b.c = "tab\tquote\" backslash\\ line\n escape\u001b é"
b.d = 1e-300
b.e = 3.0
b."f g" = -7
)";
  const Value value = parsed(text);
  const std::string written = toml_table({"t"}, value, nullptr);
  EXPECT_EQ(parsed(written).find("t")->to_json(), value.to_json()) << written;
}

TEST(TomlText, one_form_for_each_number) {
  EXPECT_EQ(toml_inline(parsed("x = 1e-3").find_path({"x"})[0]), "0.001");
  EXPECT_EQ(toml_inline(parsed("x = 3.0").find_path({"x"})[0]), "3.0");
  EXPECT_EQ(toml_inline(parsed("x = 0x10").find_path({"x"})[0]), "16");
}

}  // namespace
}  // namespace moiety::host
