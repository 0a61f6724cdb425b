#include "kernel/host/claims/terms.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/base/text.h"
#include "kernel/host/claims/costs.h"
#include "kernel/host/claims/stage_metrics.h"
#include "kernel/host/recipe/axes.h"

namespace moiety::host {

namespace {

std::vector<std::string> with_costs(std::vector<std::string> names) {
  for (const auto& cost : cost_metrics()) names.push_back(cost.declaration.name);
  return names;
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
                 did_you_mean(term.name, with_costs(metrics)),
                 metrics.empty() ? "it has none" : "metrics: " + join(metrics, ", "));
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
  // What every stage costs is the same for those that read the same.
  const bool alike = !found.empty() && declared_metric(*found[0], term.name) == nullptr &&
                     std::all_of(found.begin(), found.end(), [&](const auto* one) { return reads_alike(*one, *found[0]); });
  if (found.size() == 1 || alike) {
    term.stage = found[0]->name;
    return found[0];
  }
  if (names.empty()) return nullptr;  // an arm that measures nothing is told where it is written
  if (found.empty()) {
    const std::vector<std::string> list(names.begin(), names.end());
    text.error(term.begin, term.end, fmt::format("no measuring stage of arm `{}` has a metric `{}`", arm.name, term.name),
               did_you_mean(term.name, with_costs(list)), list.empty() ? "" : "metrics: " + join(list, ", "));
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
  const auto axes = axes_of(stage, metric);
  varied_.insert(axes.begin(), axes.end());
  for (const auto* pins : {&term.pins, &term.excluded}) {
    for (const auto& [axis, label] : *pins) {
      if (std::find(axes.begin(), axes.end(), axis) != axes.end()) continue;
      const auto message = fmt::format("`{}` of stage.{} does not vary along `{}`", metric.name, stage.name, axis);
      const auto reference = axes.empty() ? "it has no axes" : "axes: " + join(axes, ", ");
      const Axis* own = pins == &term.pins ? recipe_.axes.find(axis) : nullptr;
      if (own != nullptr && own->element(label) != nullptr) {
        spare_pins_.push_back({&text, term.begin, term.end, axis, message, reference});
      } else {
        text.error(term.begin, term.end, message, did_you_mean(axis, axes), reference);
      }
    }
  }
  multiply(term, arm, stage, text);
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

/// `axis*50` is for costs that are summed over stages, some of which vary along the axis.
void Terms::multiply(const MetricTerm& term, const RecipeArm& arm, const RecipeStage& stage, const StatementText& text) {
  for (const auto& [axis, factor] : term.times) {
    const CostMetric* cost = term.cost ? cost_metric(term.name) : nullptr;
    if (cost == nullptr || !cost->summed) {
      text.error(term.begin, term.end,
                 fmt::format("`{}*{}` counts stages in a cost: flops, tokens or cpu_seconds", axis, number(factor)));
    } else if (!costs_along(arm, stage, axis)) {
      text.error(term.begin, term.end,
                 fmt::format("`{}*{}`: no stage that stage.{} needs varies along `{}`", axis, number(factor), stage.name, axis));
    }
  }
}

void Terms::begin(const std::string& along) {
  along_ = along;
  labels_.clear();
  varied_.clear();
  spare_pins_.clear();
}

void Terms::end() {
  for (const auto& pin : spare_pins_) {
    if (varied_.count(pin.axis) == 0) pin.text->error(pin.begin, pin.end, pin.message, "", pin.reference);
  }
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
  if (axis == "domain" || term.times.count(axis) != 0) return Binding{Binding::Kind::mean, ""};
  return std::nullopt;
}

std::optional<Unit> Terms::term_unit(MetricTerm& term, const StatementText& text) {
  const RecipeArm* arm = arm_of(term, text);
  if (arm == nullptr || !arms_known_) return std::nullopt;
  const RecipeStage* stage = stage_of(term, *arm, text);
  if (stage == nullptr) return std::nullopt;
  const OutputDeclaration& metric = *metric_of(*stage, term.name);
  better_ = metric.better;
  const CostMetric* cost = declared_metric(*stage, term.name) == nullptr ? cost_metric(term.name) : nullptr;
  term.cost = cost != nullptr;
  pin(term, *arm, *stage, metric, text);
  return Unit{false, metric.unit.empty() ? metric.name : metric.unit, cost != nullptr && cost->exact};
}

}  // namespace moiety::host
