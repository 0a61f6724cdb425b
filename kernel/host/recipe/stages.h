// The stages of one arm: its tables against the verbs that do them.
#ifndef MOIETY_KERNEL_HOST_RECIPE_STAGES_H_
#define MOIETY_KERNEL_HOST_RECIPE_STAGES_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernel/host/recipe/recipe.h"

namespace moiety::host {

/// (stage, result) → value: what stages at the labels in question left.
using ResultValues = std::map<std::pair<std::string, std::string>, Value>;

struct StageScope {
  const Catalog& catalog;
  const LoadOptions& options;
  Diagnostics& diagnostics;
  const Value& root;  ///< the recipe after the arm's patch, references replaced except those to axes
  const Axes& axes;
  std::vector<std::string> arm_names;
  bool complete = true;                               ///< whether a missing required key is an error
  const std::vector<std::string>* domains = nullptr;  ///< of the corpus, with its groups
  const ResultValues* results = nullptr;              ///< values for `${NAME.result}`, when they are known
};

/// One stage at these labels, its inputs named but not followed. Nothing when even its verb is unclear.
std::optional<RecipeStage> resolve_stage(const std::string& name, const StageScope& scope, const AxisLabels& labels);

struct ArmStages {
  std::vector<RecipeStage> stages;  ///< instances reached, each before its readers
  std::set<std::string> reached;
  bool broken = false;  ///< an error hides part of the graph
};
/// What the measuring stages of the arm reach.
ArmStages resolve_stages(const std::string& arm, const Place& arm_place, const StageScope& scope);

/// A stage of the recipe with the values it waited for in its text. The error says which of them does not fit.
Result<RecipeStage> form_stage(const Recipe& recipe, const Catalog& catalog, const RecipeArm& arm, const RecipeStage& waiting,
                               const ResultValues& values);

struct ResolvedModel {
  CheckedTable table;
  std::optional<ModelSize> size;
};
/// [model] with its defaults.
ResolvedModel resolve_model(const Value& model, const Place& place, const StageScope& scope);

/// `name` → `name@newest` when the newest version is known; an unknown name is an error.
std::string with_version(const std::string& what, const std::string& use, const Place& place,
                         const std::map<std::string, int>& known, Diagnostics& diagnostics);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_STAGES_H_
