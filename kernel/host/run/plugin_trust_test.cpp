// `[plugins] path` of a recipe, from the file to the worker: searched with --trust-plugins, never without.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernel/host/run/testing/sandbox.h"

namespace moiety::host {
namespace {

using testing::has;
using testing::Sandbox;
using testing::two_arm_recipe;

const char* const kRouter = "component router top-k 1 k\n";

/// The recipe and its plugin in a folder that nothing else searches.
void write_recipe(const Sandbox& box, const std::string& path) {
  box.write("theirs/mine/routers.moiety.so", kRouter);
  box.write("theirs/recipe.toml", two_arm_recipe("router = \"top-k\"\n", "\n[plugins]\npath = " + path + "\n"));
  // Shipped plugins beside the program are probed too, so the catalog's cache tells which files were touched.
  box.write("store/there", "");
}

bool touched(const Sandbox& box) { return has(read_file(box.store() + "/catalog.json").value_or(""), "mine/routers.moiety.so"); }

TEST(PluginTrust, without_it_the_recipes_folders_are_not_looked_at_and_the_way_out_is_told) {
  Sandbox box;
  write_recipe(box, "[\"mine\"]");
  const std::vector<std::vector<std::string>> commands = {{"run"}, {"plan"}, {"recipe", "resolve"}};
  for (auto words : commands) {
    words.emplace_back("theirs/recipe.toml");
    const auto refused = box.run(words);
    EXPECT_EQ(refused.code, 2) << refused.all();
    EXPECT_TRUE(has(refused.errors, "unknown router `top-k`")) << refused.errors;
    EXPECT_TRUE(has(refused.errors, "the recipe's own plugins.path (" + std::filesystem::canonical(box.path("theirs")).string() +
                                        "/mine) is not searched without --trust-plugins: add it if you trust the libraries"))
        << refused.errors;
    EXPECT_FALSE(touched(box)) << "its library was touched";
  }
  EXPECT_EQ(box.calls("run"), 0);
  EXPECT_FALSE(std::filesystem::exists(box.registry()));
}

TEST(PluginTrust, a_recipe_that_needs_none_of_them_runs_and_says_that_they_were_not_searched) {
  Sandbox box;
  write_recipe(box, "[\"mine\"]");
  box.write("plugins/routers.moiety.so", kRouter);
  const auto ran = box.run({"run", "theirs/recipe.toml"});
  EXPECT_EQ(ran.code, 0) << ran.all();
  EXPECT_TRUE(has(ran.errors, "is not searched without --trust-plugins")) << ran.errors;
  EXPECT_FALSE(touched(box));
}

TEST(PluginTrust, with_it_the_folders_are_searched_and_the_worker_gets_the_library) {
  Sandbox box;
  write_recipe(box, "[\"missing\", \"mine\"]");
  const auto ran = box.run({"run", "theirs/recipe.toml", "--trust-plugins"});
  ASSERT_EQ(ran.code, 0) << ran.all();
  EXPECT_FALSE(has(ran.errors, "trust")) << ran.errors;
  const auto id = box.sql("SELECT id FROM stage WHERE name = 'tuned' LIMIT 1");
  const auto job = nlohmann::json::parse(*read_file(box.store() + "/work/" + id + "/job.json"));
  ASSERT_EQ(job["components"].size(), 1U);
  EXPECT_EQ(job["components"][0]["file"], std::filesystem::canonical(box.path("theirs")).string() + "/mine/routers.moiety.so");
  const auto resolved = box.run({"recipe", "resolve", "theirs/recipe.toml", "--trust-plugins"});
  EXPECT_TRUE(has(resolved.output, "\n[plugins]\npath = [\"missing\", \"mine\"]\n")) << resolved.all();
}

TEST(PluginTrust, a_path_of_the_command_line_is_the_recipes_too) {
  Sandbox box;
  write_recipe(box, "[\"elsewhere\"]");
  const std::vector<std::string> words = {"run", "theirs/recipe.toml", "--set", "plugins.path=theirs/mine"};
  EXPECT_EQ(box.run(words).code, 2);
  EXPECT_FALSE(touched(box));
  auto trusted = words;
  trusted.emplace_back("--trust-plugins");
  const auto ran = box.run(trusted);
  EXPECT_EQ(ran.code, 0) << ran.all();
}

}  // namespace
}  // namespace moiety::host
