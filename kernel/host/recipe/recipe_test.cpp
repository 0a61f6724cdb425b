#include "kernel/host/recipe/recipe.h"

#include <gtest/gtest.h>

#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

using testing::fixture_catalog;
using testing::Loaded;
using testing::small_recipe;
using testing::small_recipe_with;

TEST(Recipe, the_quickstart_recipe_resolves) {
  const auto recipe = load_recipe(std::string(MOIETY_SOURCE_FOLDER) + "/recipes/quickstart.toml", fixture_catalog(), {});
  ASSERT_TRUE(recipe.has_value()) << recipe.error().message;
  EXPECT_EQ(recipe->seeds, 5);
}

}  // namespace
}  // namespace moiety::host
