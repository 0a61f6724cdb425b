#include "kernel/host/recipe/stages.h"

#include <fmt/format.h>

#include "kernel/base/text.h"
#include "kernel/host/recipe/homes.h"
#include "kernel/host/recipe/stage_reader.h"

namespace moiety::host {

std::string with_version(const std::string& what, const std::string& use, const Place& place,
                         const std::map<std::string, int>& known, Diagnostics& diagnostics) {
  if (known.empty()) return use;
  const std::string name = use.substr(0, use.find('@'));
  const auto found = known.find(name);
  if (found == known.end()) {
    std::vector<std::string> names;
    for (const auto& [other, version] : known) names.push_back(other);
    diagnostics.error(place, fmt::format("unknown {} `{}`", what, use), did_you_mean(name, names),
                      fmt::format("known: {}", join(names, ", ")));
    return use;
  }
  const std::string newest = name + "@" + std::to_string(found->second);
  if (name != use && use != newest) {
    diagnostics.error(place, fmt::format("{} `{}`: there is no such version; the newest is {}", what, use, newest));
  }
  return newest;
}

CheckedTable resolve_model(const Value& model, const Place& place, const StageScope& scope) {
  if (!model.is_table()) {
    scope.diagnostics.error(model.place, fmt::format("[model] is a table, but this is {}", type_name(model.type)));
    return {};
  }
  TableContext context;
  context.path = "model";
  context.place = place;
  context.default_of = "default of [model]";
  context.all_keys = "all keys: moiety plugins info model";
  context.complete = scope.complete;
  return Checker(scope.catalog, scope.diagnostics).check(model, scope.catalog.model, context);
}

std::optional<RecipeStage> resolve_stage(const std::string& name, const StageScope& scope, const AxisLabels& labels) {
  const Value* stages = scope.root.find("stage");
  const auto found = stages->members.find(name);
  if (found == stages->members.end()) return std::nullopt;
  const std::size_t before = scope.diagnostics.told();
  auto stage = StageReader(name, found->second, scope, labels).read();
  if (stage) stage->flawed = scope.diagnostics.told() != before;
  return stage;
}

}  // namespace moiety::host
