#include "kernel/host/claims/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "kernel/base/text.h"
#include "kernel/host/claims/correlation.h"

namespace moiety::host {
namespace {

/// Whether what stands at this label of the axis belongs to the term.
bool fits(const MetricTerm& term, const std::string& axis, const std::string& label, const AxisLabels& at) {
  const auto found = term.bindings.find(axis);
  if (found == term.bindings.end()) return false;
  const auto& [kind, value] = found->second;
  if (kind == Binding::Kind::mean) return true;
  const bool loop = kind == Binding::Kind::loop || kind == Binding::Kind::other_loop;
  const auto current = loop ? at.find(value) : at.end();
  if (loop && current == at.end()) return false;
  const bool same = canonical_label(loop ? current->second : value) == canonical_label(label);
  return kind == Binding::Kind::label || kind == Binding::Kind::loop ? same : !same;
}

bool row_fits(const MetricTerm& term, const registry::MetricRow& row, const AxisLabels& instance, const AxisLabels& at,
              const std::string& but = {}) {
  if (row.name != term.name) return false;
  for (const auto& [axis, label] : row.labels) {
    if (axis != but && !fits(term, axis, label, at)) return false;
  }
  // What a probe says at the end about all points of a training stands at none of them.
  return std::all_of(term.bindings.begin(), term.bindings.end(), [&](const auto& bound) {
    return row.labels.count(bound.first) != 0 || instance.count(bound.first) != 0 || bound.second.kind == Binding::Kind::mean ||
           bound.first == "progress";
  });
}

double combine(Expression::Kind kind, double left, double right) {
  switch (kind) {
    case Expression::Kind::sum:
      return left + right;
    case Expression::Kind::difference:
      return left - right;
    case Expression::Kind::product:
      return left * right;
    default:
      return left / right;
  }
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

/// Values of one metric that are averaged: of perplexity its logarithm, which is then the mean of the losses.
struct Evaluator::Values {
  explicit Values(std::string of) : name(std::move(of)) {}

  bool logarithmic() const { return name == "perplexity"; }
  void add(double value) { all.push_back(logarithmic() ? std::log(value) : value); }
  double mean() const { return logarithmic() ? std::exp(mean_of(all)) : mean_of(all); }

  std::string name;
  std::vector<double> all;
};

const std::string& Evaluator::state(const std::string& id) {
  const auto [known, is_new] = states_.emplace(id, "");
  if (is_new) known->second = measured_.state(id);
  return known->second;
}

const std::vector<registry::MetricRow>& Evaluator::rows(const std::string& id) {
  const auto [known, is_new] = rows_.emplace(id, std::vector<registry::MetricRow>{});
  if (is_new) known->second = measured_.final_rows(id);
  return known->second;
}

/// The first stage of the run that is in the way.
std::string Evaluator::cause(const PlannedRun& run, const RunStage& wanted) {
  for (const auto& one : run.stages) {
    // A stage at another label of an axis has no part in this one.
    const bool beside = std::any_of(one.labels.begin(), one.labels.end(), [&](const auto& label) {
      const auto found = wanted.labels.find(label.first);
      return found != wanted.labels.end() && found->second != label.second;
    });
    if (beside) continue;
    const std::string& now = state(one.id);
    const std::string title = instance_text(one.name, one.labels);
    if (now == "failed" || now == "diverged" || now == "interrupted") return fmt::format("stage {} {}", title, now);
    if (one.id == wanted.id) return fmt::format("stage {} {}", title, now.empty() ? "has not run" : "is " + now);
  }
  return {};
}

std::vector<const RunStage*> Evaluator::instances(const PlannedRun& run, const MetricTerm& term, const AxisLabels& at) const {
  std::vector<const RunStage*> found;
  for (const auto& one : run.stages) {
    if (one.name != term.stage) continue;
    const bool all = std::all_of(one.labels.begin(), one.labels.end(),
                                 [&](const auto& label) { return fits(term, label.first, label.second, at); });
    if (all) found.push_back(&one);
  }
  return found;
}

Reading Evaluator::metric(const MetricTerm& term, int seed, const AxisLabels& at) {
  if (term.mean_over.empty()) return metric_at(term, seed, at);
  std::vector<double> values;
  Reading last;
  for (const auto& cell : cells(term.mean_over, {}, at)) {
    last = metric_at(term, seed, cell);
    if (last.absent) continue;
    if (!last.problem.empty()) return last;
    values.push_back(last.value);
  }
  return values.empty() ? last : Reading{mean_of(values), "", false};
}

Reading Evaluator::metric_at(const MetricTerm& term, int seed, const AxisLabels& at) {
  const PlannedRun* run = plan_.run(term.arm, seed);
  const std::string name = fmt::format("{}/{}", term.arm, seed);
  if (run == nullptr) return {0, "no run " + name, false};
  const auto found = instances(*run, term, at);
  if (found.empty() && !run->unchosen.empty()) return {0, run->unchosen, false};
  // In a run of which stages wait for results nobody knows whether `skip` left it out.
  if (found.empty()) {
    return {
        0,
        fmt::format("run {} has no stage {}{}", name, instance_text(term.stage, at), run->waits ? ": a result is not known" : ""),
        !run->waits};
  }
  Values values(term.name);
  for (const auto* one : found) {
    if (term.cost) {
      Reading cost = costs_.of(term.name, *run, *one, term.times);
      if (!cost.problem.empty()) return cost;
      values.all.push_back(cost.value);
      continue;
    }
    Reading problem =
        read(*run, *one, values, [&](const registry::MetricRow& row) { return row_fits(term, row, one->labels, at); });
    if (!problem.problem.empty()) return problem;
  }
  if (values.all.empty()) return {0, fmt::format("run {}: {}.{} was not recorded", name, term.stage, term.name), false};
  return {values.mean(), "", false};
}

/// What a stage recorded under the name, where `wanted`, or what is in the way.
Reading Evaluator::read(const PlannedRun& run, const RunStage& stage, Values& values,
                        const std::function<bool(const registry::MetricRow&)>& wanted) {
  const std::string title = fmt::format("run {}/{}", run.arm, run.seed);
  if (state(stage.id) != "done") return {0, fmt::format("{}: {}", title, cause(run, stage)), false};
  for (const auto& row : rows(stage.id)) {
    if (row.name != values.name || !wanted(row)) continue;
    if (!std::isfinite(row.value) || (values.logarithmic() && row.value <= 0))
      return {0, fmt::format("{}: {}.{} is {}", title, stage.name, row.name, number(row.value)), false};
    values.add(row.value);
  }
  return {};
}

Reading Evaluator::mean(const PlannedRun& run, const RunStage& stage, const std::string& metric) {
  Values values(metric);
  Reading problem = read(run, stage, values, [](const registry::MetricRow&) { return true; });
  if (!problem.problem.empty()) return problem;
  if (values.all.empty())
    return {0, fmt::format("run {}/{}: {}.{} was not recorded", run.arm, run.seed, stage.name, metric), false};
  return {values.mean(), "", false};
}

bool Evaluator::diverged(const PlannedRun& run, const RunStage& stage) {
  return costs_.of("diverged", run, stage, {}).value == 1;
}

Reading Evaluator::evaluate(const Expression& node, int seed, const AxisLabels& at) {
  switch (node.kind) {
    case Expression::Kind::number:
      return {node.number, "", false};
    case Expression::Kind::metric:
      return metric(node.metric, seed, at);
    case Expression::Kind::measure:
      return evaluate(*node.left, seed, at);
    case Expression::Kind::function:
      return function(node, seed, at);
    default:
      break;
  }
  Reading left = evaluate(*node.left, seed, at);
  if (!left.problem.empty()) return left;
  if (node.kind == Expression::Kind::absolute) return {std::abs(left.value), "", false};
  Reading right = evaluate(*node.right, seed, at);
  if (!right.problem.empty()) return right;
  if (node.kind == Expression::Kind::quotient && right.value == 0)
    return {0, fmt::format("seed {}: division by zero", seed), false};
  return {combine(node.kind, left.value, right.value), "", false};
}

Reading Evaluator::function(const Expression& node, int seed, const AxisLabels& at) {
  std::vector<const Expression*> parts = {node.left.get()};
  if (node.right != nullptr) parts.push_back(node.right.get());
  std::vector<AxisLabels> all;
  std::vector<double> left, right, labels;
  Reading last{0, fmt::format("seed {}: `{}` has no cell to go over", seed, node.function), false};
  for (const auto& cell : cells(node.loops, parts, at)) {
    if (node.where_metric != nullptr) {
      const Reading where = evaluate(*node.where_metric, seed, cell);
      if (where.absent) continue;
      if (!where.problem.empty()) return where;
      if (node.where_below ? where.value >= node.where_number : where.value <= node.where_number) continue;
    }
    const Reading a = evaluate(*node.left, seed, cell);
    const Reading b = node.right != nullptr && a.problem.empty() ? evaluate(*node.right, seed, cell) : a;
    if (a.absent || b.absent) continue;
    if (!b.problem.empty()) return b;
    all.push_back(cell);
    left.push_back(a.value);
    right.push_back(b.value);
    labels.push_back(std::strtod(cell.at(node.loops.front().axis).c_str(), nullptr));
  }
  if (all.empty()) return last;
  const auto of = [&](std::optional<double> value, const char* why) {
    return value ? Reading{*value, "", false} : Reading{0, fmt::format("seed {}: `{}` {}", seed, node.function, why), false};
  };
  if (node.function == "spearman") return of(spearman(left, right), "of values that are all equal");
  if (node.function == "kendall") return of(kendall(left, right), "of values that are all equal");
  if (node.function == "agree") return of(sign_agreement(left, right), "of zeros alone");
  if (node.function == "exponent") return of(log_slope(labels, left), "needs two labels and values above 0");
  if (node.function == "spread") {
    const auto [low, high] = std::minmax_element(left.begin(), left.end());
    return {*high - *low, "", false};
  }
  if (node.function == "mean") return {mean_of(left), "", false};
  return node.function == "rank" ? rank(node, all, seed) : choice(node, all, seed);
}

/// The label that is best in the mean of the other seeds, so that choosing it does not flatter.
Reading Evaluator::choice(const Expression& node, const std::vector<AxisLabels>& cells, int seed) {
  const double sign = (node.function == "best" ? 1 : -1) * (node.better > 0 ? 1 : -1);
  const AxisLabels* chosen = nullptr;
  double highest = 0;
  for (const auto& cell : cells) {
    double sum = 0;
    int count = 0;
    for (int other = 1; other <= plan_.seeds; ++other) {
      if (other == seed) continue;
      const Reading reading = evaluate(*node.left, other, cell);
      if (!reading.problem.empty()) continue;
      sum += sign * reading.value;
      ++count;
    }
    if (count > 0 && (chosen == nullptr || sum / count > highest)) {
      chosen = &cell;
      highest = sum / count;
    }
  }
  if (chosen == nullptr)
    return {0, fmt::format("seed {}: `{}` is chosen on the other seeds, and there is none", seed, node.function), false};
  return evaluate(*node.left, seed, *chosen);
}

/// Among the arms that have the metric, 1 for the best, ties share; the mean over the cells.
Reading Evaluator::rank(const Expression& node, const std::vector<AxisLabels>& cells, int seed) {
  std::vector<double> ranks;
  for (const auto& cell : cells) {
    const double own = evaluate(*node.left, seed, cell).value * node.better;
    double position = 1;
    for (const auto& term : node.ranked) {
      const Reading other = metric(term, seed, cell);
      if (other.absent) continue;
      if (!other.problem.empty()) return other;
      position += other.value * node.better > own ? 1 : other.value * node.better == own ? 0.5 : 0;
    }
    ranks.push_back(position);
  }
  return {mean_of(ranks), "", false};
}

void Evaluator::collect(const Expression& node, const std::string& axis, const AxisLabels& at, std::vector<std::string>& found) {
  for (const auto& part : {node.left, node.right}) {
    if (part != nullptr) collect(*part, axis, at, found);
  }
  if (node.kind != Expression::Kind::metric) return;
  const auto bound = node.metric.bindings.find(axis);
  if (bound == node.metric.bindings.end() || bound->second.kind != Binding::Kind::loop || bound->second.value != axis) return;
  for (int seed = 1; seed <= plan_.seeds; ++seed) {
    const PlannedRun* run = plan_.run(node.metric.arm, seed);
    if (run == nullptr) continue;
    for (const auto& one : run->stages) {
      if (one.name != node.metric.stage || state(one.id) != "done") continue;
      for (const auto& row : rows(one.id)) {
        const auto label = row.labels.find(axis);
        if (row.name != node.metric.name || label == row.labels.end()) continue;
        if (std::find(found.begin(), found.end(), label->second) == found.end()) found.push_back(label->second);
      }
    }
  }
}

std::vector<std::string> Evaluator::labels(const Loop& loop, const std::vector<const Expression*>& expressions,
                                           const AxisLabels& at) {
  if (!loop.labels.empty()) return loop.labels;
  std::vector<std::string> found;
  for (const auto* one : expressions) collect(*one, loop.axis, at, found);
  const auto value = [](const std::string& label) {
    char* end = nullptr;
    const double number = std::strtod(label.c_str(), &end);
    return end != label.c_str() && (*end == '\0' || *end == '%') ? std::optional<double>(number) : std::nullopt;
  };
  if (std::all_of(found.begin(), found.end(), [&](const std::string& label) { return value(label).has_value(); }))
    std::stable_sort(found.begin(), found.end(),
                     [&](const std::string& a, const std::string& b) { return *value(a) < *value(b); });
  return found;
}

std::vector<AxisLabels> Evaluator::cells(const std::vector<Loop>& loops, const std::vector<const Expression*>& expressions,
                                         const AxisLabels& at) {
  std::vector<AxisLabels> result = {at};
  for (const auto& loop : loops) {
    std::vector<AxisLabels> longer;
    const auto all = labels(loop, expressions, at);
    for (const auto& before : result) {
      for (const auto& label : all) {
        longer.push_back(before);
        longer.back()[loop.axis] = label;
      }
    }
    result = std::move(longer);
  }
  return result;
}

}  // namespace moiety::host
