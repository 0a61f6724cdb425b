// What an expression is measured in: sums, products, functions over axes, measures. Its metrics are in terms.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "kernel/base/text.h"
#include "kernel/host/claims/stage_metrics.h"
#include "kernel/host/claims/terms.h"

namespace moiety::host {

bool is_share(const std::string& unit) { return unit == "share" || unit == "fraction" || unit == "accuracy"; }

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
  if (!node.metric.times.empty()) {
    text.error(node.begin, node.end, fmt::format("`{}` is a measure: `axis*number` stands behind a metric", node.metric.name));
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
    const auto axes = axes_of(*stage, *metric);
    for (auto* pins : {&term.pins, &term.excluded}) {
      for (auto pin = pins->begin(); pin != pins->end();) {
        const bool varies = std::find(axes.begin(), axes.end(), pin->first) != axes.end();
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
  const bool exact = left->exact && right->exact && where->exact;
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
    return Unit{false, "exponent", exact};
  }
  if (node.function == "rank" && node.left->kind != Expression::Kind::metric) {
    text.error(node.left->begin, node.left->end, "`rank` is that of one metric among the arms");
    return std::nullopt;
  }
  if ((node.function == "best" || node.function == "worst" || node.function == "rank") && node.better == 0) {
    text.error(node.begin, node.end, fmt::format("`{}`: neither high nor low values of this metric are better", node.function));
    return std::nullopt;
  }
  if (correlation) return Unit{false, "correlation", exact};
  if (node.function == "agree") return Unit{false, "share", exact};
  if (node.function == "rank") return Unit{false, "rank", exact};
  return Unit{false, left->name, exact};
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
  const bool plain = left->plain && right->plain;
  const bool exact = !plain && (left->plain || left->exact) && (right->plain || right->exact);
  if (node.kind == Expression::Kind::product || node.kind == Expression::Kind::quotient) {
    if (right->plain) return left;
    if (node.kind == Expression::Kind::product) return left->plain ? *right : Unit{false, left->name + "·" + right->name, exact};
    if (!left->plain && left->name == right->name) return Unit{false, "ratio", exact};
    return Unit{false, (left->plain ? "1" : left->name) + "/" + right->name, exact};
  }
  if (left->plain) return right;
  if (!right->plain && left->name != right->name) {
    text.error(node.begin, node.end, fmt::format("{} and {} cannot be added or subtracted", left->name, right->name));
    return std::nullopt;
  }
  return Unit{false, left->name, exact};
}

}  // namespace moiety::host
