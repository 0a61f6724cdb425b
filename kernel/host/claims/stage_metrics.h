// The metrics of a stage: what its verb and its components declare, and what every stage costs.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_STAGE_METRICS_H_
#define MOIETY_KERNEL_HOST_CLAIMS_STAGE_METRICS_H_

#include <string>
#include <vector>

#include "kernel/host/recipe/recipe.h"

namespace moiety::host {

/// Nothing when the stage declares no such metric.
const OutputDeclaration* declared_metric(const RecipeStage& stage, const std::string& name);
/// The same, or the cost of that name, which every stage has.
const OutputDeclaration* metric_of(const RecipeStage& stage, const std::string& name);
/// Names of the declared ones.
std::vector<std::string> metrics_of(const RecipeStage& stage);
/// Those of the recipe along which the stage varies, then those that measuring adds (`set`, `domain`, `progress`, …).
std::vector<std::string> axes_of(const RecipeStage& stage, const OutputDeclaration& metric);

/// Labels that the recipe gives an axis of the stage; empty when only the data know them.
std::vector<std::string> labels_of(const RecipeArm& arm, const RecipeStage& stage, const std::string& axis);

/// Whether the stage, or one that it needs, varies along the axis.
bool costs_along(const RecipeArm& arm, const RecipeStage& stage, const std::string& axis);
/// Whether two stages read the same stages, so that they cost the same.
bool reads_alike(const RecipeStage& a, const RecipeStage& b);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_STAGE_METRICS_H_
