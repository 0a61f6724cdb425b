#include "kernel/host/recipe/plugin_paths.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

using testing::Loaded;
using testing::small_recipe;
using Paths = std::vector<std::string>;

TEST(PluginPaths, a_relative_path_starts_at_the_file_that_writes_it) {
  const TemporaryFolder folder;
  ASSERT_TRUE(make_folders(folder / "parents"));
  ASSERT_TRUE(write_file(folder / "parents/base.toml", small_recipe() + "[plugins]\npath = \"theirs\"\n"));
  ASSERT_TRUE(write_file(folder / "child.toml", "[recipe]\nextends = \"parents/base.toml\"\n"));
  ASSERT_TRUE(write_file(folder / "own.toml",
                         "[recipe]\nextends = \"parents/base.toml\"\n[define]\nmine = \"mine\"\n"
                         "[plugins]\npath = [\"${mine}\", \"/absolute\", \"x.moiety.so\"]\n"));
  EXPECT_EQ(plugin_paths(folder / "child.toml", {}), (Paths{folder / "parents/theirs"}));
  EXPECT_EQ(plugin_paths(folder / "own.toml", {}), (Paths{folder / "mine", "/absolute", folder / "x.moiety.so"}));
  EXPECT_EQ(plugin_paths(folder / "own.toml", {{false, "plugins.path=here"}}),
            (Paths{(std::filesystem::current_path() / "here").string()}));
  EXPECT_EQ(plugin_paths(folder / "own.toml", {{true, "plugins"}}), Paths{});
  EXPECT_EQ(plugin_paths(folder / "missing.toml", {}), Paths{});

  const auto child = load_recipe(folder / "child.toml", testing::fixture_catalog(), {});
  ASSERT_TRUE(child) << child.error().message;
  EXPECT_NE(child->resolved_text.find("[plugins]\npath = [\"parents/theirs\"]\n"), std::string::npos) << child->resolved_text;
}

TEST(PluginPaths, resolving_a_resolved_recipe_keeps_them) {
  const Loaded once(small_recipe() + "[plugins]\npath = [\"mine\", \"/absolute\"]\n");
  ASSERT_TRUE(once.good()) << once.error();
  const Loaded twice(once.recipe().resolved_text);
  ASSERT_TRUE(twice.good()) << twice.error();
  EXPECT_EQ(twice.recipe().resolved_text, once.recipe().resolved_text);
  EXPECT_EQ(once.recipe().resolved_text.find("[plugins]"), twice.recipe().resolved_text.find("[plugins]"));
  EXPECT_NE(once.recipe().resolved_text.find("path = [\"mine\", \"/absolute\"]"), std::string::npos);
  EXPECT_EQ(Loaded(small_recipe()).recipe().resolved_text.find("[plugins]"), std::string::npos) << "absent unless written";
}

TEST(PluginPaths, what_is_no_path_is_told) {
  const auto error = [](const std::string& text) { return Loaded(small_recipe() + text).error(); };
  const auto expect = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(error("[plugins]\npath = [3]\n"), "`path` in plugins must be a list of texts, but this is an integer");
  expect(error("[plugins]\npath = \"\"\n"), "`path` in plugins has an empty path");
  expect(error("[plugins]\npaths = [\"a\"]\n"), "did you mean `path`?");
  expect(error("[plugins]\n"), "plugins needs `path`");
  expect(error("[plugin]\npath = \"a\"\n"), "did you mean `plugins`?");
}

}  // namespace
}  // namespace moiety::host
