#include "kernel/host/recipe/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "kernel/base/text.h"
#include "kernel/host/claims/stage_metrics.h"

namespace moiety::host {
namespace {

bool is_validation(const RecipeStage& stage, const std::string& metric) {
  // What a training measures beside its loss is of validation data, and is called so.
  if (!stage.verb->measures) return metric.rfind("valid_", 0) == 0;
  const auto data = stage.config.find("data");
  if (data != stage.config.end() && data->is_object()) return data->value("split", "") == "valid";
  const auto on = stage.config.find("on");
  return on != stage.config.end() && *on == nlohmann::json::array({"valid"});
}

class ChoiceCheck {
 public:
  ChoiceCheck(const Recipe& recipe, Diagnostics& diagnostics) : recipe_(recipe), diagnostics_(diagnostics) {}

  void run() {
    for (const auto& arm : recipe_.arms) {
      for (const auto& axis : recipe_.axes.all()) {
        const bool varies = std::any_of(arm.stages.begin(), arm.stages.end(),
                                        [&](const RecipeStage& stage) { return stage.labels.count(axis.name) != 0; });
        if (!axis.choice || !varies || !check(arm, axis, *axis.choice)) continue;
        std::vector<std::string> way = {axis.choice->text};
        if (waits_in_circle(arm, *axis.choice, way)) break;
      }
    }
  }

 private:
  void error(const ChoiceRule& rule, const std::string& topic, const std::string& message, const std::string& suggestion = {},
             const std::string& reference = {}) {
    diagnostics_.add({rule.place, message, suggestion, reference, {}, topic});
  }

  bool check(const RecipeArm& arm, const Axis& axis, const ChoiceRule& rule) {
    const RecipeStage* stage = arm.stage(rule.stage);
    const std::string what = fmt::format("choose.{}: arm `{}`", axis.name, arm.name);
    if (stage == nullptr) {
      std::vector<std::string> names;
      for (const auto& one : arm.stages) {
        if (std::find(names.begin(), names.end(), one.name) == names.end()) names.push_back(one.name);
      }
      error(rule, "stage", fmt::format("{} has no stage `{}` to go by", what, rule.stage), did_you_mean(rule.stage, names),
            names.size() <= 8 ? "stages: " + join(names, ", ") : "");
      return false;
    }
    if (stage->flawed) return false;
    if (stage->labels.count(axis.name) == 0) {
      error(rule, "varies",
            fmt::format("{}: stage.{} does not vary along `{}`, so it cannot tell the best", what, rule.stage, axis.name));
      return false;
    }
    const auto* metric = declared_metric(*stage, rule.metric);
    const auto metrics = metrics_of(*stage);
    if (metric == nullptr) {
      error(rule, "metric", fmt::format("{}: stage.{} ({}) has no metric `{}`", what, rule.stage, stage->verb->name, rule.metric),
            did_you_mean(rule.metric, metrics), "metrics: " + join(metrics, ", "));
      return false;
    }
    if (!is_validation(*stage, rule.metric)) {
      error(rule, "split",
            fmt::format("{}: `{}.{}` is not of validation data, and what is reported must not choose", what, rule.stage,
                        rule.metric),
            stage->verb->measures ? "measure the stage on `split = \"valid\"` for it" : "", "");
      return false;
    }
    if (metric->better != 0 && (metric->better > 0) != rule.highest) {
      error(rule, "better",
            fmt::format("choose.{}: the {} is the worst of `{}`", axis.name, rule.highest ? "highest" : "lowest", rule.metric),
            fmt::format("did you mean \"{} {}.{}\"?", rule.highest ? "lowest" : "highest", rule.stage, rule.metric));
      return false;
    }
    return true;
  }

  /// What a choice goes by may vary along others: these are made before. Those that go by the same are made together.
  bool waits_in_circle(const RecipeArm& arm, const ChoiceRule& rule, std::vector<std::string>& way) {
    const RecipeStage* stage = arm.stage(rule.stage);
    if (stage == nullptr) return false;
    for (const auto& [name, label] : stage->labels) {
      const auto& other = recipe_.axes.find(name)->choice;
      if (!other || other->text == rule.text) continue;
      if (std::find(way.begin(), way.end(), other->text) != way.end()) {
        error(rule, "circle",
              fmt::format("arm `{}`: choices wait for each other: {}", arm.name, join(way, " after ") + " after " + other->text),
              "choices with equal `by` are made together");
        return true;
      }
      way.push_back(other->text);
      if (waits_in_circle(arm, *other, way)) return true;
      way.pop_back();
    }
    return false;
  }

  const Recipe& recipe_;
  Diagnostics& diagnostics_;
};

}  // namespace

void check_choices(const Recipe& recipe, Diagnostics& diagnostics) { ChoiceCheck(recipe, diagnostics).run(); }

SplitLabels split_labels(const AxisLabels& labels, const Axes& axes) {
  SplitLabels parts;
  for (const auto& [name, label] : labels) {
    const Axis* axis = axes.find(name);
    (axis != nullptr && axis->choice ? parts.choices : parts.axes)[name] = label;
  }
  return parts;
}

Recipe as_reported(const Recipe& recipe) {
  Recipe reported = recipe;
  reported.axes = recipe.axes.without_choices();
  for (auto& arm : reported.arms) {
    std::vector<RecipeStage> stages;
    std::set<std::pair<std::string, AxisLabels>> seen;
    for (auto& stage : arm.stages) {
      stage.labels = split_labels(stage.labels, recipe.axes).axes;
      if (!seen.insert({stage.name, stage.labels}).second) continue;
      for (auto& [input, reads] : stage.inputs) {
        for (auto& read : reads) read.labels = split_labels(read.labels, recipe.axes).axes;
      }
      for (auto& read : stage.results) read.labels = split_labels(read.labels, recipe.axes).axes;
      stages.push_back(std::move(stage));
    }
    arm.stages = std::move(stages);
  }
  return reported;
}

}  // namespace moiety::host
