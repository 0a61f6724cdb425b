// The arms of a recipe and their stages; the recipe without any arm's patch, for its resolved text.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "kernel/base/text.h"
#include "kernel/host/recipe/recipe_reader.h"
#include "kernel/host/recipe/reference.h"
#include "kernel/host/recipe/resolved_text.h"

namespace moiety::host {

void RecipeReader::read_arms_and_stages(const Defaults& defaults) {
  const auto arms = read_arms(root_, defaults, diagnostics_);
  for (const auto& arm : arms) arm_names_.push_back(arm.name);
  recipe_.axes = read_axes(root_, arm_names_, diagnostics_);
  std::set<std::string> reached, varied;
  std::map<std::string, Place> written;
  const auto note_stages = [&](const Value& root) {
    for (const auto& [name, member] : root.find("stage")->members) written.insert({name, member.key});
  };
  note_stages(root_);
  Value resolved_arms = Value::table();
  const bool arms_in_order = !broken_;
  for (const auto& arm : arms) {
    Value root = arm.root;
    if (root.find("stage") == nullptr) continue;
    note_stages(root);
    check_stage_names(*root.find("stage"));
    expand_stage_references(root, diagnostics_);
    const StageScope scope{catalog_, options_, diagnostics_, root, recipe_.axes, arm_names_, true, &recipe_.domains};
    auto stages = resolve_stages(arm.name, arm.place, scope);
    broken_ = broken_ || stages.broken;
    reached.insert(stages.reached.begin(), stages.reached.end());
    for (const auto& stage : stages.stages) {
      for (const auto& [axis, label] : stage.labels) varied.insert(axis);
    }
    resolved_arms.set(arm.name, resolved_arm(arm, stages, scope), arm.place);
    Value patch = arm.patch;
    recipe_.arms.push_back({arm.name, patch.to_json(), std::move(stages.stages), arm.place, nullptr});
    const auto& kept = recipe_.arms.back().stages;
    if (std::any_of(kept.begin(), kept.end(), [](const RecipeStage& one) { return !one.results.empty(); }))
      recipe_.arms.back().root = std::make_shared<const Value>(std::move(root));
  }
  if (arms_in_order && root_.find("arm") != nullptr) resolved_.set("arm", std::move(resolved_arms));
  resolve_base(reached);
  if (broken_ || diagnostics_.any()) return;
  for (const auto& axis : recipe_.axes.all()) {
    if (varied.count(axis.name) == 0 && Document::own(axis.place)) {
      diagnostics_.error(axis.place, fmt::format("{} `{}`: no stage that an arm reaches mentions `${{{}}}`",
                                                 axis.choice ? "choice" : "axis", axis.name, axis.name));
    }
  }
  for (const auto& [name, place] : written) {
    // A child recipe may leave stages of its parent unused.
    if (reached.count(name) == 0 && Document::own(place)) {
      diagnostics_.error(
          place, fmt::format("stage.{} is reached by no arm: an arm runs the stages that measure and what they read", name));
    }
  }
}

Value RecipeReader::resolved_arm(const ArmText& arm, const ArmStages& stages, const StageScope& scope) {
  Value result = arm.patch;
  if (Value* model = result.find("model")) {
    Sources quiet_sources = sources_;
    Diagnostics quiet(quiet_sources);
    const StageScope quiet_scope{scope.catalog, scope.options, quiet, scope.root, scope.axes, scope.arm_names, false};
    Value whole = scope.root.find("model") != nullptr ? *scope.root.find("model") : Value::table();
    substitute_first_labels(whole, scope.axes, quiet);
    const Value resolved = resolve_model(whole, {}, quiet_scope).table.text;
    *model = resolved_patch(*model, &resolved);
  }
  if (Value* patch = result.find("stage")) {
    for (auto& [name, member] : patch->members) {
      const std::string& stage_name = name;
      const auto found = std::find_if(stages.stages.begin(), stages.stages.end(),
                                      [&](const RecipeStage& one) { return one.name == stage_name; });
      if (found == stages.stages.end()) continue;
      const bool whole = std::find(arm.whole.begin(), arm.whole.end(), name) != arm.whole.end();
      member.value = whole ? found->text : resolved_patch(member.value, &found->text);
    }
  }
  return result;
}

void RecipeReader::resolve_base(const std::set<std::string>& reached) {
  Value root = root_;
  Sources quiet_sources = sources_;
  Diagnostics quiet(quiet_sources);
  expand_stage_references(root, quiet);
  const StageScope scope{catalog_, options_, quiet, root, recipe_.axes, arm_names_, false, &recipe_.domains};
  Value stages = Value::table();
  for (const auto& [name, member] : root.find("stage")->members) {
    const std::size_t before = quiet.size();
    const auto stage = resolve_stage(name, scope, recipe_.axes.first_labels());
    // What only arms complete is kept as written.
    const bool good = stage && quiet.size() == before;
    stages.set(name, good ? stage->text : root_.find("stage")->members.at(name).value, member.key);
    if (reached.count(name) != 0) continue;
    for (std::size_t i = before; i < quiet.size(); ++i) diagnostics_.add(quiet.list()[i]);
  }
  resolved_.set("stage", std::move(stages));
  if (Value* model = root.find("model")) {
    substitute_first_labels(*model, recipe_.axes, diagnostics_);
    StageScope model_scope{catalog_, options_, diagnostics_, root, recipe_.axes, arm_names_, false};
    Value text = resolve_model(*model, root.members.at("model").key, model_scope).table.text;
    if (model->is_table()) resolved_.set("model", std::move(text));
  }
}

void RecipeReader::check_baseline() {
  if (recipe_.baseline.empty() || recipe_.arm(recipe_.baseline) != nullptr) return;
  const Value* baseline = resolved_.find("recipe")->find("baseline");
  diagnostics_.error(baseline->place, fmt::format("unknown arm `{}` for `baseline` in recipe", recipe_.baseline),
                     did_you_mean(recipe_.baseline, arm_names_));
}

void RecipeReader::check_totals() {
  using Takes = std::map<std::string, std::map<std::string, Place>>;
  Takes budgets, sizes;
  for (const auto& arm : recipe_.arms) {
    for (const auto& stage : arm.stages) {
      if (const auto* from = stage.budget_of()) budgets[arm.name].insert({*from, stage.text.find("budget")->place});
      if (stage.size) sizes[arm.name].insert({stage.size->of, stage.size->place});
    }
  }
  for (const auto& [what, takes] : {std::pair<const char*, const Takes*>("budgets", &budgets), {"sizes", &sizes}}) {
    for (const auto& arm : recipe_.arms) {
      std::vector<std::string> way = {arm.name};
      if (!circle_of(arm.name, *takes, way)) continue;
      diagnostics_.error(takes->at(arm.name).at(way[1]),
                         fmt::format("arms take their {} from each other in a circle: {}", what, join(way, " from ")));
      break;
    }
  }
}

bool RecipeReader::circle_of(const std::string& first, const std::map<std::string, std::map<std::string, Place>>& takes,
                             std::vector<std::string>& way) {
  const auto found = takes.find(way.back());
  if (found == takes.end() || way.size() > takes.size()) return false;
  for (const auto& [next, place] : found->second) {
    way.push_back(next);
    if (next == first || circle_of(first, takes, way)) return true;
    way.pop_back();
  }
  return false;
}

}  // namespace moiety::host
