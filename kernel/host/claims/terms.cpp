#include "kernel/host/claims/terms.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/base/text.h"

namespace moiety::host {

bool is_share(const std::string& unit) { return unit == "share" || unit == "fraction" || unit == "accuracy"; }

namespace {

const OutputDeclaration* metric_of(const RecipeStage& stage, const std::string& name) {
  for (const auto& metric : stage.verb->metrics) {
    if (metric.name == name && metric.exists(stage.config)) return &metric;
  }
  return nullptr;
}

std::vector<std::string> metrics_of(const RecipeStage& stage) {
  std::vector<std::string> names;
  for (const auto& metric : stage.verb->metrics) {
    if (metric.exists(stage.config)) names.push_back(metric.name);
  }
  return names;
}

/// Labels that the stage's text gives an axis; empty when only the data know them.
std::vector<std::string> labels_of(const RecipeArm& arm, const RecipeStage& stage, const std::string& axis) {
  if (stage.labels.count(axis) != 0) {
    std::vector<std::string> labels;
    for (const auto* one : arm.instances(stage.name)) {
      const auto& label = one->labels.at(axis);
      if (std::find(labels.begin(), labels.end(), label) == labels.end()) labels.push_back(label);
    }
    return labels;
  }
  const nlohmann::json* at = nullptr;
  if (axis == "set" && stage.config.contains("on")) at = &stage.config.at("on");
  if (axis == "domain" && stage.config.contains("data") && stage.config.at("data").contains("domains"))
    at = &stage.config.at("data").at("domains");
  std::vector<std::string> labels;
  if (at == nullptr || !at->is_array()) return labels;
  for (const auto& label : *at) {
    if (label.is_string()) labels.push_back(label.get<std::string>());
  }
  return labels;
}

}  // namespace

const RecipeArm* Terms::arm_of(MetricTerm& term, const StatementText& text) const {
  std::vector<std::string> names;
  for (const auto& arm : recipe_.arms) names.push_back(arm.name);
  if (term.arm.empty() && recipe_.arms.size() == 1) term.arm = names[0];
  if (term.arm.empty()) {
    text.error(term.begin, term.end,
               fmt::format("`{}` needs an arm, as in {}({}): the recipe has several", term.name, term.name,
                           names.empty() ? "ARM" : names[0]));
    return nullptr;
  }
  const RecipeArm* arm = recipe_.arm(term.arm);
  if (arm == nullptr)
    text.error(term.begin, term.end, fmt::format("unknown arm `{}`", term.arm), did_you_mean(term.arm, names),
               names.size() <= 8 ? "arms: " + join(names, ", ") : "");
  return arm;
}

const RecipeStage* Terms::stage_of(MetricTerm& term, const RecipeArm& arm, const StatementText& text) const {
  if (!term.stage.empty()) {
    const RecipeStage* stage = arm.stage(term.stage);
    std::vector<std::string> names;
    for (const auto& one : arm.stages) {
      if (std::find(names.begin(), names.end(), one.name) == names.end()) names.push_back(one.name);
    }
    if (stage == nullptr) {
      text.error(term.begin, term.end, fmt::format("arm `{}` has no stage `{}`", arm.name, term.stage),
                 did_you_mean(term.stage, names), "stages: " + join(names, ", "));
    } else if (metric_of(*stage, term.name) == nullptr) {
      const auto metrics = metrics_of(*stage);
      text.error(term.begin, term.end, fmt::format("stage.{} ({}) has no metric `{}`", stage->name, stage->verb->name, term.name),
                 did_you_mean(term.name, metrics), metrics.empty() ? "it has none" : "metrics: " + join(metrics, ", "));
      stage = nullptr;
    }
    return stage;
  }
  return measuring_stage(term, arm, text);
}

/// The one measuring stage of the arm that has the metric.
const RecipeStage* Terms::measuring_stage(MetricTerm& term, const RecipeArm& arm, const StatementText& text) const {
  std::vector<const RecipeStage*> found;
  std::set<std::string> names;
  for (const auto& stage : arm.stages) {
    if (!stage.verb->measures || arm.stage(stage.name) != &stage) continue;
    if (metric_of(stage, term.name) != nullptr) found.push_back(&stage);
    for (const auto& name : metrics_of(stage)) names.insert(name);
  }
  if (found.size() == 1) {
    term.stage = found[0]->name;
    return found[0];
  }
  if (names.empty()) return nullptr;  // an arm that measures nothing is told where it is written
  if (found.empty()) {
    const std::vector<std::string> list(names.begin(), names.end());
    text.error(term.begin, term.end, fmt::format("no measuring stage of arm `{}` has a metric `{}`", arm.name, term.name),
               did_you_mean(term.name, list), list.empty() ? "" : "metrics: " + join(list, ", "));
  } else {
    std::vector<std::string> both;
    for (const auto* stage : found) both.push_back(stage->name + "." + term.name);
    text.error(term.begin, term.end,
               fmt::format("`{}` is measured by several stages of arm `{}`: write {}", term.name, arm.name, join(both, " or ")));
  }
  return nullptr;
}

void Terms::pin(MetricTerm& term, const RecipeArm& arm, const RecipeStage& stage, const OutputDeclaration& metric,
                const StatementText& text) {
  std::vector<std::string> axes;
  for (const auto& [axis, label] : stage.labels) axes.push_back(axis);
  axes.insert(axes.end(), metric.axes.begin(), metric.axes.end());
  for (const auto& [axis, label] : term.pins) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) {
      text.error(term.begin, term.end, fmt::format("`{}` of stage.{} does not vary along `{}`", metric.name, stage.name, axis),
                 did_you_mean(axis, axes), axes.empty() ? "it has no axes" : "axes: " + join(axes, ", "));
    }
  }
  for (const auto& axis : axes) {
    const auto labels = labels_of(arm, stage, axis);
    const auto common = at_.find(axis);
    if (common != at_.end()) {
      used_pins_.insert(axis);
      term.pins.emplace(axis, common->second);
    }
    const auto pinned = term.pins.find(axis);
    if (const Axis* own = recipe_.axes.find(axis); own != nullptr && pinned != term.pins.end()) {
      if (const auto* element = own->element(pinned->second)) pinned->second = element->label;
    }
    if (pinned != term.pins.end()) {
      if (!labels.empty() && std::find(labels.begin(), labels.end(), pinned->second) == labels.end()) {
        text.error(term.begin, term.end, fmt::format("axis `{}` of stage.{} has no label `{}`", axis, stage.name, pinned->second),
                   did_you_mean(pinned->second, labels), "labels: " + join(labels, ", "));
      }
    } else if (labels.size() == 1) {
      term.pins[axis] = labels[0];
    } else if (axis != "domain") {
      text.error(
          term.begin, term.end,
          fmt::format("`{}` of stage.{} varies along `{}`{}: pin it, as in at = {{ {} = \"{}\" }}", metric.name, stage.name, axis,
                      labels.empty() ? "" : " (" + join(labels, ", ") + ")", axis, labels.empty() ? "LABEL" : labels[0]));
    }
  }
}

std::optional<Unit> Terms::term_unit(MetricTerm& term, const StatementText& text) {
  const RecipeArm* arm = arm_of(term, text);
  if (arm == nullptr || !arms_known_) return std::nullopt;
  const RecipeStage* stage = stage_of(term, *arm, text);
  if (stage == nullptr) return std::nullopt;
  const OutputDeclaration& metric = *metric_of(*stage, term.name);
  pin(term, *arm, *stage, metric, text);
  return Unit{false, metric.unit.empty() ? metric.name : metric.unit};
}

std::optional<Unit> Terms::unit_of(Expression& node, const StatementText& text) {
  switch (node.kind) {
    case Expression::Kind::number:
      return Unit{};
    case Expression::Kind::metric:
      return term_unit(node.metric, text);
    case Expression::Kind::absolute:
      return unit_of(*node.left, text);
    default:
      break;
  }
  const auto left = unit_of(*node.left, text), right = unit_of(*node.right, text);
  if (!left || !right) return std::nullopt;
  if (node.kind == Expression::Kind::product || node.kind == Expression::Kind::quotient) {
    if (right->plain) return left;
    if (node.kind == Expression::Kind::product) return left->plain ? right : Unit{false, left->name + "·" + right->name};
    if (!left->plain && left->name == right->name) return Unit{false, "ratio"};
    return Unit{false, (left->plain ? "1" : left->name) + "/" + right->name};
  }
  if (left->plain) return right;
  if (!right->plain && left->name != right->name) {
    text.error(node.begin, node.end, fmt::format("{} and {} cannot be added or subtracted", left->name, right->name));
    return std::nullopt;
  }
  return left;
}

}  // namespace moiety::host
