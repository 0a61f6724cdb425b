// How a construct stage makes the sites of a model: which places get experts, their components, and the numbers moved into them.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_SITE_MAKING_H_
#define MOIETY_KERNEL_ENGINE_STAGES_SITE_MAKING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernel/engine/model/model_file.h"
#include "kernel/engine/stages/stage.h"

namespace moiety::engine {

/// The layers of a model that the rule means, in order; `path` is the key it stands at.
std::vector<std::int64_t> layers_of(const Layers& wanted, std::int64_t layers, const std::string& path, ConfigProblems& problems);

/// A site's own two components. Several sites are independent, though the text is the same.
struct SiteParts {
  Site site;
  Instance constructor, router;
  double capacity = 0;

  bool finds_experts() const;
  bool needs_activations() const;
};

/// Made of a table's `experts` and `router` at `path`. The number of experts is asked for, and both are asked whether they agree
/// to it; it stays 0 where the router finds it. Nothing after adding to `problems`.
std::optional<SiteParts> make_parts(const ComponentSet& components, const nlohmann::json& table, const std::string& path,
                                    Site site, std::int64_t sources, double capacity, ConfigProblems& problems);

/// The same for a plan: what the site costs, and what it adds to the model's parameters. Declares into a store that makes no
/// tensors.
void add_planned_site(PlannedModel& model, SiteParts parts);

/// What expand() gave, into the declared tensors of the site at `prefix`. `target` is where they go: the model's own tensors, or
/// tensors of the same names that hold moments. Throws ComponentFailure for what was not declared, another shape, or values that
/// are not finite. Gives the names written.
std::vector<std::string> fill_site(const ExpertSite& site, const TensorMap& values, const TensorMap& target);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_SITE_MAKING_H_
