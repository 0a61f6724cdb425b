// Every file golden/NAME.toml is a recipe with mistakes; golden/NAME.txt is the whole text that people see. Options of the
// command line stand in golden/NAME.args, one a line. MOIETY_UPDATE_GOLDEN=1 writes the texts anew: read the difference before
// committing.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "kernel/base/files.h"
#include "kernel/base/text.h"
#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(MOIETY_SOURCE_FOLDER) + "/kernel/host/recipe/golden")) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<Override> read_overrides(const std::string& path) {
  std::vector<Override> overrides;
  const auto text = read_file(path);
  if (!text) return overrides;
  for (const auto& line : split(*text, '\n')) {
    const auto space = line.find(' ');
    if (space != std::string::npos) overrides.push_back({line.substr(0, space) == "--unset", line.substr(space + 1)});
  }
  return overrides;
}

class Golden : public testing::InFolder {
 protected:
  Golden() : InFolder("kernel/host/recipe/golden") {}
};

TEST_P(Golden, the_message_is_the_expected_text) {
  LoadOptions options;
  options.overrides = read_overrides(GetParam() + ".args");
  options.domains = {{"debian-8", {"fiction", "law", "music", "office"}}};
  const auto recipe = load_recipe(GetParam() + ".toml", testing::fixture_catalog(), options);
  ASSERT_FALSE(recipe.has_value()) << "a recipe of this folder has a mistake";
  EXPECT_EQ(recipe.error().kind, ErrorKind::usage);
  const std::string text = recipe.error().message + "\n";
  testing::expect_golden(GetParam() + ".txt", text);
}

INSTANTIATE_TEST_SUITE_P(Recipe, Golden, ::testing::ValuesIn(golden_names()), [](const auto& golden) { return golden.param; });

TEST(GoldenFiles, at_least_twenty_mistakes_are_covered) { EXPECT_GE(golden_names().size(), 20U); }

}  // namespace
}  // namespace moiety::host
