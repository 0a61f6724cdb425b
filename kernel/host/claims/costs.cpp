#include "kernel/host/claims/costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

namespace moiety::host {
namespace {

CostMetric cost_named(const char* name, const char* unit, bool exact, bool summed, const char* doc) {
  CostMetric metric;
  metric.declaration.name = name;
  metric.declaration.unit = unit;
  metric.declaration.doc = doc;
  metric.declaration.better = -1;
  metric.exact = exact;
  metric.summed = summed;
  return metric;
}

/// Where a run has the stage, first.
const RunStage* place_of(const PlannedRun& run, const std::string& id) {
  const auto found = std::find_if(run.stages.begin(), run.stages.end(), [&](const RunStage& one) { return one.id == id; });
  return found == run.stages.end() ? nullptr : &*found;
}

/// How often a stage counts among these: `axis*n` is for n labels of the axis, of which these have one or, collected, several.
double weight_of(const RunStage& stage, const std::vector<const RunStage*>& all, const std::map<std::string, double>& times) {
  double weight = 1;
  for (const auto& [axis, factor] : times) {
    if (stage.labels.count(axis) == 0) continue;
    std::set<std::string> labels;
    for (const auto* one : all) {
      const auto label = one->labels.find(axis);
      if (one->name == stage.name && label != one->labels.end()) labels.insert(label->second);
    }
    weight *= factor / static_cast<double>(labels.size());
  }
  return weight;
}

}  // namespace

const std::vector<CostMetric>& cost_metrics() {
  static const auto* metrics = new std::vector<CostMetric>{
      cost_named("flops", "FLOPs", true, true, "floating-point operations"),
      cost_named("tokens", "tokens", true, true, "that were read"),
      cost_named("total_parameters", "parameters", true, false, "of the model"),
      cost_named("active_parameters", "parameters", true, false, "of the model, that one token uses"),
      cost_named("trainable_parameters", "parameters", true, false, "of the model, that training changed"),
      cost_named("cpu_seconds", "s", false, true, "of all threads"),
      cost_named("step_seconds", "s", false, false, "of one step of training"),
      cost_named("peak_memory", "bytes", false, false, "of the process that trained"),
      cost_named("diverged", "share", false, false, "1 when a loss or a gradient was not finite, else 0")};
  return *metrics;
}

const CostMetric* cost_metric(const std::string& name) {
  const auto& all = cost_metrics();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.declaration.name == name; });
  return found == all.end() ? nullptr : &*found;
}

PlanCosts::PlanCosts(const Plan& plan, CountsOf counts, std::function<std::string(const std::string&)> state)
    : counts_(std::move(counts)), state_(std::move(state)) {
  for (const auto& stage : plan.stages) stages_.emplace(stage.id, &stage);
}

/// All that a stage reads or takes results of, directly or not, without itself.
const std::vector<PlanCosts::Need>& PlanCosts::needed(const std::string& id) {
  const auto [known, is_new] = needed_.emplace(id, std::vector<Need>{});
  if (!is_new) return known->second;
  std::vector<Need> found;
  std::vector<std::string> open = {id};
  const auto read = [&](const std::string& other, const std::string& point) {
    auto need = std::find_if(found.begin(), found.end(), [&](const Need& one) { return one.id == other; });
    if (need == found.end()) {
      open.push_back(other);
      need = found.insert(found.end(), Need{other, {}});
    }
    need->points.insert(point);
  };
  while (!open.empty()) {
    const auto stage = stages_.find(open.back());
    open.pop_back();
    if (stage == stages_.end()) continue;
    for (const auto& input : stage->second->inputs) read(input.stage_id, input.snapshot);
    for (const auto& other : stage->second->results_of) read(other, "");
  }
  known->second = std::move(found);
  return known->second;
}

/// The stages whose costs make that of this one.
std::vector<PlanCosts::Need> PlanCosts::counted(const std::string& name, const PlannedStage& stage) {
  std::vector<Need> needs;
  if (!stage.verb->measures) needs.push_back({stage.id, {""}});
  if (name == "diverged" || (stage.verb->measures && cost_metric(name)->summed)) {
    for (const auto& need : needed(stage.id)) {
      const auto found = stages_.find(need.id);
      if (found == stages_.end() || !found->second->verb->measures) needs.push_back(need);
    }
  } else if (stage.verb->measures) {
    for (const auto& input : stage.inputs) {
      const bool known = std::any_of(needs.begin(), needs.end(), [&](const Need& one) { return one.id == input.stage_id; });
      if (input.name == "from" && !known) needs.push_back({input.stage_id, {""}});
    }
  }
  return needs;
}

/// How much of a stage was needed: all, or up to the last point of its training that is read, "10%" or "400k tokens".
double PlanCosts::share(const Need& need) {
  double most = 0;
  for (const auto& point : need.points) {
    char* unit = nullptr;
    const double amount = std::strtod(point.c_str(), &unit);
    if (unit == point.c_str()) return 1;
    if (*unit == '%') {
      most = std::max(most, amount / 100);
      continue;
    }
    const double size = *unit == 'k' ? 1e3 : *unit == 'M' ? 1e6 : *unit == 'G' ? 1e9 : 1;
    const auto tokens = own("tokens", need.id);
    most = std::max(most, tokens && *tokens > 0 ? amount * size / *tokens : 1);
  }
  return std::min(most, 1.0);
}

std::optional<double> PlanCosts::own(const std::string& name, const std::string& id) {
  const auto [known, is_new] = known_.emplace(id, StageCounts{});
  if (is_new && counts_) known->second = counts_(id);
  const auto found = known->second.find(name);
  if (found != known->second.end()) return found->second;
  // A stage that does not say what it trains trains everything.
  const auto stage = stages_.find(id);
  if (name != "trainable_parameters" || stage == stages_.end()) return std::nullopt;
  const auto& config = stage->second->config;
  const bool all = !config.is_object() || !config.contains("train") || config.at("train") == "all";
  return all ? own("total_parameters", id) : std::nullopt;
}

Reading PlanCosts::diverged(const PlannedRun& run, const std::vector<Need>& needs) const {
  std::string problem;
  for (const auto& need : needs) {
    const RunStage* one = place_of(run, need.id);
    if (one == nullptr) continue;
    const std::string state = state_ ? state_(one->id) : "";
    if (state == "diverged") return {1, "", false};
    if (state != "done" && problem.empty()) {
      problem = fmt::format("run {}/{}: stage {} {}", run.arm, run.seed, instance_text(one->name, one->labels),
                            state.empty() ? "has not run" : "is " + state);
    }
  }
  return {0, problem, false};
}

Reading PlanCosts::of(const std::string& name, const PlannedRun& run, const RunStage& stage,
                      const std::map<std::string, double>& times) {
  const auto planned = stages_.find(stage.id);
  if (planned == stages_.end()) return {0, "no stage " + stage.id, false};
  const auto needs = counted(name, *planned->second);
  if (name == "diverged") return diverged(run, needs);
  std::vector<const RunStage*> places;
  for (const auto& need : needs) {
    const RunStage* place = place_of(run, need.id);
    if (place != nullptr) places.push_back(place);
  }
  double sum = 0;
  for (const auto& need : needs) {
    const RunStage* one = place_of(run, need.id);
    if (one == nullptr) continue;
    const auto value = own(name, one->id);
    if (!value) {
      return {
          0,
          fmt::format("run {}/{}: `{}` of stage {} is not known", run.arm, run.seed, name, instance_text(one->name, one->labels)),
          false};
    }
    const double part = cost_metric(name)->summed ? share(need) : 1;
    sum += *value * part * weight_of(*one, places, times);
  }
  return {sum, "", false};
}

}  // namespace moiety::host
