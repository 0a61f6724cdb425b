// Whole studies in drafts/*/: what of them is refused, with the made-up catalog, and nothing else. The text that people see
// stands beside each as NAME.txt. MOIETY_UPDATE_GOLDEN=1 writes the texts anew: read the difference before committing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

std::string drafts_folder() { return std::string(MOIETY_SOURCE_FOLDER) + "/kernel/host/recipe/drafts"; }

/// "bam/matched", …
std::vector<std::string> draft_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(drafts_folder())) {
    const auto& path = entry.path();
    if (path.extension() == ".toml") names.push_back(path.parent_path().filename().string() + "/" + path.stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Drafts : public testing::InFolder {
 protected:
  Drafts() : InFolder("kernel/host/recipe/drafts") {}
};

TEST_P(Drafts, what_is_refused_is_the_expected_text) {
  const auto recipe = load_recipe(GetParam() + ".toml", testing::fixture_catalog(), {});
  std::string text = recipe ? "" : recipe.error().message + "\n";
  if (recipe) {
    const Plan plan = build_plan(*recipe, testing::fixture_catalog(), {"corpus", {{"finefoods", "task"}, {"field", "task"}}});
    text = fmt::format("nothing is refused: {} runs, {} stages, {} wait for others\n", plan.runs.size(), plan.stages.size(),
                       plan.waiting.size());
  }
  testing::expect_golden(GetParam() + ".txt", text);
}

INSTANTIATE_TEST_SUITE_P(Recipe, Drafts, ::testing::ValuesIn(draft_names()), [](const auto& draft) {
  std::string name = draft.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == '-'; }, '_');
  return name;
});

}  // namespace
}  // namespace moiety::host
