#include "kernel/host/claims/terms.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/base/text.h"
#include "kernel/host/recipe/axes.h"

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
  for (const auto& [axis, label] : term.excluded) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) {
      text.error(term.begin, term.end, fmt::format("`{}` of stage.{} does not vary along `{}`", metric.name, stage.name, axis),
                 did_you_mean(axis, axes), axes.empty() ? "it has no axes" : "axes: " + join(axes, ", "));
    }
  }
  for (const auto& axis : axes) {
    const auto labels = labels_of(arm, stage, axis);
    auto bound = binding(term, axis, labels);
    if (!bound) {
      text.error(
          term.begin, term.end,
          fmt::format("`{}` of stage.{} varies along `{}`{}: pin it, as in at = {{ {} = \"{}\" }}", metric.name, stage.name, axis,
                      labels.empty() ? "" : " (" + join(labels, ", ") + ")", axis, labels.empty() ? "LABEL" : labels[0]));
      continue;
    }
    const bool is_label = bound->kind == Binding::Kind::label || bound->kind == Binding::Kind::other_label;
    if (is_label && !labels.empty()) {
      const auto found = std::find_if(labels.begin(), labels.end(), [&](const std::string& label) {
        return canonical_label(label) == canonical_label(bound->value);
      });
      if (found == labels.end()) {
        text.error(term.begin, term.end, fmt::format("axis `{}` of stage.{} has no label `{}`", axis, stage.name, bound->value),
                   did_you_mean(bound->value, labels), "labels: " + join(labels, ", "));
      } else {
        bound->value = *found;
      }
    }
    term.bindings[axis] = *bound;
  }
}

void Terms::begin(const std::string& along) {
  along_ = along;
  labels_.clear();
}

Loop Terms::loop(const std::string& axis) const {
  if (const Axis* own = recipe_.axes.find(axis)) return {axis, own->labels()};
  const auto found = labels_.find(axis);
  if (found == labels_.end() || found->second.open) return {axis, {}};
  return {axis, found->second.known};
}

bool Terms::is_loop(const std::string& axis) const {
  const auto in = [&](const std::vector<std::string>& axes) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); };
  return in(over_) || axis == along_ || in(claim_.quantified);
}

void Terms::note(const std::string& axis, const std::vector<std::string>& labels) {
  used_axes_.insert(axis);
  auto& noted = labels_[axis];
  noted.open = noted.open || labels.empty();
  for (const auto& label : labels) {
    if (std::find(noted.known.begin(), noted.known.end(), label) == noted.known.end()) noted.known.push_back(label);
  }
}

/// A label may be the name of an axis that the statement goes over, or is averaged along.
Binding Terms::named(MetricTerm& term, const std::string& label, bool other) {
  if (is_loop(label)) {
    const Axis* own = recipe_.axes.find(label);
    note(label, own != nullptr ? own->labels() : std::vector<std::string>{});
    return {other ? Binding::Kind::other_loop : Binding::Kind::loop, label};
  }
  const bool mean = std::find(claim_.mean.begin(), claim_.mean.end(), label) != claim_.mean.end();
  if (mean && recipe_.axes.find(label) != nullptr) {
    used_axes_.insert(label);
    const bool known =
        std::any_of(term.mean_over.begin(), term.mean_over.end(), [&](const Loop& loop) { return loop.axis == label; });
    if (!known) term.mean_over.push_back({label, recipe_.axes.find(label)->labels()});
    return {other ? Binding::Kind::other_loop : Binding::Kind::loop, label};
  }
  return {other ? Binding::Kind::other_label : Binding::Kind::label, label};
}

/// What the term itself says counts before the measures it stands in, then loops, the mean, and what the claim pins.
std::optional<Binding> Terms::binding(MetricTerm& term, const std::string& axis, const std::vector<std::string>& labels) {
  const auto written = [&](const MetricTerm& from) -> std::optional<Binding> {
    if (const auto pin = from.pins.find(axis); pin != from.pins.end()) return named(term, pin->second, false);
    if (const auto pin = from.excluded.find(axis); pin != from.excluded.end()) return named(term, pin->second, true);
    return std::nullopt;
  };
  auto own = written(term);
  for (std::size_t i = measures_open_.size(); i > 0; --i) {
    auto outer = written(*measures_open_[i - 1]);
    if (outer) measure_pins_used_[i - 1].insert(axis);
    if (!own) own = std::move(outer);
  }
  if (own) return own;
  if (is_loop(axis)) {
    note(axis, labels);
    return Binding{Binding::Kind::loop, axis};
  }
  if (std::find(claim_.mean.begin(), claim_.mean.end(), axis) != claim_.mean.end()) {
    used_axes_.insert(axis);
    if (claim_.at.count(axis) != 0) used_axes_.insert(axis);
    return Binding{Binding::Kind::mean, ""};
  }
  if (const auto pin = claim_.at.find(axis); pin != claim_.at.end()) {
    used_axes_.insert(axis);
    return named(term, pin->second, false);
  }
  if (labels.size() == 1) return Binding{Binding::Kind::label, labels[0]};
  if (axis == "domain") return Binding{Binding::Kind::mean, ""};
  return std::nullopt;
}

std::optional<Unit> Terms::term_unit(MetricTerm& term, const StatementText& text) {
  const RecipeArm* arm = arm_of(term, text);
  if (arm == nullptr || !arms_known_) return std::nullopt;
  const RecipeStage* stage = stage_of(term, *arm, text);
  if (stage == nullptr) return std::nullopt;
  const OutputDeclaration& metric = *metric_of(*stage, term.name);
  better_ = metric.better;
  pin(term, *arm, *stage, metric, text);
  return Unit{false, metric.unit.empty() ? metric.name : metric.unit};
}

/// The expression of the measure takes the place of its name; its metrics take the pins that stand behind the name.
std::optional<Unit> Terms::measure_unit(Expression& node, const StatementText& text) {
  const Measure& measure = *measures_.find(node.metric.name);
  if (!node.metric.arm.empty()) {
    text.error(node.begin, node.end,
               fmt::format("`{}` is a measure: behind it stand pins, axis=label, and no arm", node.metric.name));
    return std::nullopt;
  }
  const bool circle = std::any_of(measures_open_.begin(), measures_open_.end(),
                                  [&](const MetricTerm* open) { return open->name == node.metric.name; });
  if (circle) {
    text.error(node.begin, node.end, fmt::format("the measure `{}` goes in a circle", node.metric.name));
    return std::nullopt;
  }
  if (measure.expression == nullptr) return std::nullopt;
  node.kind = Expression::Kind::measure;
  node.left = clone(*measure.expression);
  measures_open_.push_back(&node.metric);
  measure_pins_used_.emplace_back();
  auto unit = unit_of(*node.left, *measure.text);
  const auto used = std::move(measure_pins_used_.back());
  measures_open_.pop_back();
  measure_pins_used_.pop_back();
  if (!unit) return std::nullopt;
  for (const auto* pins : {&node.metric.pins, &node.metric.excluded}) {
    for (const auto& [axis, label] : *pins) {
      if (used.count(axis) == 0)
        text.error(node.begin, node.end, fmt::format("no metric of the measure `{}` varies along `{}`", node.metric.name, axis));
    }
  }
  return unit;
}

/// The metric of every other arm that has it, at the same pins where that arm varies along them.
void Terms::rank_among_arms(Expression& node, const MetricTerm& unbound, const StatementText& text) {
  for (const auto& arm : recipe_.arms) {
    const RecipeStage* stage = arm.stage(node.left->metric.stage);
    const OutputDeclaration* metric = stage != nullptr ? metric_of(*stage, unbound.name) : nullptr;
    if (arm.name == node.left->metric.arm || metric == nullptr) continue;
    MetricTerm term = unbound;
    term.arm = arm.name;
    term.stage = stage->name;
    for (auto* pins : {&term.pins, &term.excluded}) {
      for (auto pin = pins->begin(); pin != pins->end();) {
        const bool varies = stage->labels.count(pin->first) != 0 ||
                            std::find(metric->axes.begin(), metric->axes.end(), pin->first) != metric->axes.end();
        pin = varies ? std::next(pin) : pins->erase(pin);
      }
    }
    pin(term, arm, *stage, *metric, text);
    node.ranked.push_back(std::move(term));
  }
}

std::optional<Unit> Terms::function_unit(Expression& node, const StatementText& text) {
  const std::size_t outer = over_.size();
  over_.insert(over_.end(), node.over.begin(), node.over.end());
  const MetricTerm unbound = node.left->metric;
  const auto left = unit_of(*node.left, text);
  node.better = better_;
  if (left && node.function == "rank" && node.left->kind == Expression::Kind::metric) rank_among_arms(node, unbound, text);
  const auto right = node.right != nullptr ? unit_of(*node.right, text) : left;
  const auto where = node.where_metric != nullptr ? unit_of(*node.where_metric, text) : left;
  over_.resize(outer);
  if (!left || !right || !where) return std::nullopt;
  double cells = 1;
  for (const auto& axis : node.over) {
    if (!goes_over(axis)) {
      text.error(node.begin, node.end,
                 fmt::format("`{}` goes over `{}`, and none of its metrics varies along that", node.function, axis));
      return std::nullopt;
    }
    node.loops.push_back(loop(axis));
    cells = node.loops.back().labels.empty() ? 0 : cells * static_cast<double>(node.loops.back().labels.size());
  }
  if (left->plain || right->plain) {
    text.error(node.begin, node.end, fmt::format("`{}` takes what is measured, not a number", node.function));
    return std::nullopt;
  }
  const bool correlation = node.function == "spearman" || node.function == "kendall";
  if (correlation && cells > 0 && cells < 5) {
    text.error(node.begin, node.end, fmt::format("`{}` over {} labels: a correlation needs at least five", node.function, cells));
    return std::nullopt;
  }
  if (node.function == "exponent") {
    const auto& labels = node.loops.front().labels;
    const bool numbers = node.loops.size() == 1 && std::all_of(labels.begin(), labels.end(), [](const std::string& label) {
                           const auto margin = parse_margin(label);
                           return margin && margin->unit == Margin::Unit::plain && margin->value > 0;
                         });
    if (!numbers) {
      text.error(node.begin, node.end, "`exponent` goes over one axis, whose labels are numbers above 0");
      return std::nullopt;
    }
    return Unit{false, "exponent"};
  }
  if (node.function == "rank" && node.left->kind != Expression::Kind::metric) {
    text.error(node.left->begin, node.left->end, "`rank` is that of one metric among the arms");
    return std::nullopt;
  }
  if ((node.function == "best" || node.function == "worst" || node.function == "rank") && node.better == 0) {
    text.error(node.begin, node.end, fmt::format("`{}`: neither high nor low values of this metric are better", node.function));
    return std::nullopt;
  }
  if (correlation) return Unit{false, "correlation"};
  if (node.function == "agree") return Unit{false, "share"};
  if (node.function == "rank") return Unit{false, "rank"};
  return left;
}

std::optional<Unit> Terms::unit_of(Expression& node, const StatementText& text) {
  switch (node.kind) {
    case Expression::Kind::number:
      return Unit{};
    case Expression::Kind::metric:
    case Expression::Kind::measure:
      if (node.metric.stage.empty() && measures_.find(node.metric.name) != nullptr) return measure_unit(node, text);
      return term_unit(node.metric, text);
    case Expression::Kind::absolute:
      return unit_of(*node.left, text);
    case Expression::Kind::function:
      return function_unit(node, text);
    default:
      return arithmetic_unit(node, text);
  }
}

std::optional<Unit> Terms::arithmetic_unit(Expression& node, const StatementText& text) {
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
