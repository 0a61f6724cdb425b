// For tests: a made-up catalog with what the quickstart recipe needs, and recipes written to temporary files.
#ifndef MOIETY_KERNEL_HOST_RECIPE_FIXTURE_H_
#define MOIETY_KERNEL_HOST_RECIPE_FIXTURE_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernel/base/files.h"
#include "kernel/host/catalog.h"
#include "kernel/host/plan/plan.h"
#include "kernel/host/recipe/recipe.h"

namespace moiety::host::testing {

nlohmann::json describe_json();
std::vector<nlohmann::json> probed_json();
const Catalog& fixture_catalog();

/// A small recipe that resolves: pretrained → split → tuned → score, language, arms dense and clustered.
std::string small_recipe();
/// The same with one line replaced; fails the test when the line is not there.
std::string small_recipe_with(const std::string& line, const std::string& replacement);

/// Compares with the text in a file. MOIETY_UPDATE_GOLDEN=1 writes the file anew: read the difference before committing.
void expect_golden(const std::string& path, const std::string& text);

/// Tests run in this folder of the sources, so that messages show names alone.
class InFolder : public ::testing::TestWithParam<std::string> {
 protected:
  explicit InFolder(const std::string& folder);
  ~InFolder() override;

 private:
  std::string before_;
};

/// Loads text as `recipe.toml` of a temporary folder; messages show that name alone.
class Loaded {
 public:
  explicit Loaded(const std::string& text, std::vector<Override> overrides = {}, const Catalog& catalog = fixture_catalog());

  bool good() const { return recipe_.has_value(); }
  const Recipe& recipe() const { return *recipe_; }
  std::string error() const { return recipe_ ? "" : recipe_.error().message; }
  Plan plan(const PreparedData& prepared = {"corpus-hash", {{"supersense", "task-hash"}}}) const;

 private:
  const Catalog& catalog_;
  Result<Recipe> recipe_;
};

}  // namespace moiety::host::testing

#endif  // MOIETY_KERNEL_HOST_RECIPE_FIXTURE_H_
