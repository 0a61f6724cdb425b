#include "kernel/host/recipe/stages.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/base/text.h"
#include "kernel/host/recipe/homes.h"
#include "kernel/host/recipe/quantities.h"
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

namespace {

/// Takes the size out of the table that follows another arm's parameters; any number stands for it.
std::optional<ModelSize> take_size(Value& model, const StageScope& scope) {
  constexpr std::int64_t largest = 1 << 20;
  std::optional<ModelSize> size;
  for (const auto& declared : scope.catalog.model) {
    Value* value = model.find(declared.name);
    const auto text = value != nullptr && value->is_text() ? parse_model_size(value->text) : std::nullopt;
    if (declared.type != "integer" || !text) continue;
    const Place place = value->place;
    const auto low = static_cast<std::int64_t>(declared.low.value_or(1));
    const auto high = std::min(static_cast<std::int64_t>(declared.high.value_or(largest)), largest);
    const std::string written = value->text;
    *value = Value::of(low);
    value->place = place;
    if (size) {
      scope.diagnostics.error(place, fmt::format("`{}` in model: `{}` follows another arm already, and one size can be found",
                                                 declared.name, size->parameter));
      continue;
    }
    if (std::find(scope.arm_names.begin(), scope.arm_names.end(), text->of) == scope.arm_names.end())
      scope.diagnostics.error(place, fmt::format("unknown arm `{}` for `{}` in model", text->of, declared.name),
                              did_you_mean(text->of, scope.arm_names));
    size = ModelSize{declared.name, written, text->active, text->of, place, low, high};
  }
  return size;
}

bool has_unknown_family(const Value& model, const Catalog& catalog) {
  const Value* family = model.find("family");
  if (family == nullptr || !family->is_text()) return false;
  return std::any_of(catalog.model.begin(), catalog.model.end(), [&](const ParameterDeclaration& one) {
    return one.name == "family" && std::find(one.choices.begin(), one.choices.end(), family->text) == one.choices.end();
  });
}

}  // namespace

ResolvedModel resolve_model(const Value& model, const Place& place, const StageScope& scope) {
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
  Value written = model;
  ResolvedModel resolved;
  // Which keys a model has is said by its family: of one that is not known, nothing more can be said.
  if (has_unknown_family(model, scope.catalog)) {
    written.members = {*model.members.find("family")};
    context.complete = false;
  }
  resolved.size = take_size(written, scope);
  resolved.table = Checker(scope.catalog, scope.diagnostics).check(written, scope.catalog.model, context);
  if (resolved.size) {
    resolved.table.config[resolved.size->parameter] = nullptr;
    if (Value* value = resolved.table.text.find(resolved.size->parameter)) *value = *model.find(resolved.size->parameter);
  }
  return resolved;
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
