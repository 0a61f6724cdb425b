#include "kernel/host/recipe/document.h"

#include <gtest/gtest.h>

#include "kernel/base/files.h"
#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

struct Read {
  Sources sources;
  Diagnostics diagnostics{sources};
  std::optional<Document> document;
};

class Documents : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { ASSERT_TRUE(write_file(folder_ / name, text).has_value()); }
  void load(const std::string& name, const std::vector<Override>& overrides = {}) {
    read_.document = load_document(folder_ / name, overrides, read_.sources, read_.diagnostics);
  }
  nlohmann::json root() const { return read_.document ? read_.document->root.to_json() : nlohmann::json(); }

  TemporaryFolder folder_;
  Read read_;
};

TEST_F(Documents, a_child_inherits_everything_and_removes_first) {
  write("base.toml", "[recipe]\nname = 'base'\n[arm]\na = {}\nb = {}\n[stage.x]\nlist = [1, 2]\nrouter = { use = 'r', k = 1 }\n");
  write("child.toml",
        "[recipe]\nextends = 'base.toml'\nunset = ['arm', 'stage.x.list']\n[arm]\nc = {}\n[stage.x]\nrouter.k = 2\n");
  load("child.toml");
  ASSERT_TRUE(read_.document.has_value()) << read_.diagnostics.text();
  EXPECT_EQ(root(), nlohmann::json::parse(
                        R"({"recipe": {"name": "base"}, "arm": {"c": {}}, "stage": {"x": {"router": {"use": "r", "k": 2}}}})"));
}

TEST_F(Documents, T32_with_one_parent_an_explicit_value_in_the_child_decides) {
  write("a.toml", "[model]\nwidth = 1\n");
  write("b.toml", "[recipe]\nextends = 'a.toml'\n[model]\nwidth = 2\n");
  write("c.toml", "[recipe]\nextends = 'b.toml'\n[model]\nwidth = 3\n");
  load("c.toml");
  ASSERT_TRUE(read_.document.has_value());
  const Value* width = read_.document->root.find_path({"model", "width"});
  EXPECT_EQ(width->integer, 3);
  EXPECT_EQ(read_.sources.text(width->place), folder_ / "c.toml" + ":4:9");
}

TEST_F(Documents, T32_two_parents_are_refused_with_the_way_out) {
  write("child.toml", "[recipe]\nextends = ['a.toml', 'b.toml']\n");
  load("child.toml");
  EXPECT_FALSE(read_.document.has_value());
  EXPECT_NE(read_.diagnostics.text().find("one parent, not a list"), std::string::npos);
  EXPECT_NE(read_.diagnostics.text().find("let that one extend the other"), std::string::npos);
}

TEST_F(Documents, eight_levels_of_extends_and_no_more) {
  write("0.toml", "[model]\nwidth = 1\n");
  for (int i = 1; i <= 9; ++i) write(std::to_string(i) + ".toml", "[recipe]\nextends = '" + std::to_string(i - 1) + ".toml'\n");
  load("8.toml");
  EXPECT_TRUE(read_.document.has_value()) << read_.diagnostics.text();
  Read deeper;
  EXPECT_FALSE(load_document(folder_ / "9.toml", {}, deeper.sources, deeper.diagnostics).has_value());
  EXPECT_NE(deeper.diagnostics.text().find("deeper than 8 levels"), std::string::npos);
}

TEST_F(Documents, T33_set_reaches_any_key_and_unset_removes_any) {
  write("r.toml", "[stage.x]\nbatch = 1\nrouter = { use = 'r', k = 1 }\n[arm]\na = {}\n");
  load("r.toml", {{false, "stage.x.batch=2"},
                  {false, "stage.x.router.k=7"},
                  {false, "stage.x.budget=15k examples"},
                  {false, "stage.new.do=evaluate"},
                  {true, "arm.a"},
                  {false, "stage.x.batch=3"}});
  ASSERT_TRUE(read_.document.has_value());
  EXPECT_FALSE(read_.diagnostics.any()) << read_.diagnostics.text();
  EXPECT_EQ(root(), nlohmann::json::parse(R"({"arm": {}, "stage": {"new": {"do": "evaluate"},
      "x": {"batch": 3, "budget": "15k examples", "router": {"use": "r", "k": 7}}}})"));
  EXPECT_EQ(read_.sources.text(read_.document->root.find_path({"stage", "x", "batch"})->place), "command line, 5th --set");
}

TEST_F(Documents, a_missing_recipe_is_told) {
  load("absent.toml");
  EXPECT_FALSE(read_.document.has_value());
  EXPECT_NE(read_.diagnostics.text().find("absent.toml"), std::string::npos);
}

}  // namespace
}  // namespace moiety::host
