#include "kernel/host/claims/costs.h"

#include <fmt/format.h>

#include <algorithm>
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

/// Where a run has these stages: each once.
std::vector<const RunStage*> places_of(const PlannedRun& run, const std::vector<std::string>& ids) {
  std::vector<const RunStage*> places;
  std::set<std::string> wanted(ids.begin(), ids.end());
  for (const auto& one : run.stages) {
    if (wanted.erase(one.id) != 0) places.push_back(&one);
  }
  return places;
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

/// All that a stage reads, directly or not, without itself.
const std::vector<std::string>& PlanCosts::needed(const std::string& id) {
  const auto [known, is_new] = needed_.emplace(id, std::vector<std::string>{});
  if (!is_new) return known->second;
  std::vector<std::string> found, open = {id};
  std::set<std::string> seen = {id};
  while (!open.empty()) {
    const auto stage = stages_.find(open.back());
    open.pop_back();
    if (stage == stages_.end()) continue;
    for (const auto& input : stage->second->inputs) {
      if (!seen.insert(input.stage_id).second) continue;
      found.push_back(input.stage_id);
      open.push_back(input.stage_id);
    }
  }
  known->second = std::move(found);
  return known->second;
}

/// The stages whose costs make that of this one.
std::vector<std::string> PlanCosts::counted(const std::string& name, const PlannedStage& stage) {
  std::vector<std::string> ids;
  if (!stage.verb->measures) ids.push_back(stage.id);
  if (name == "diverged" || (stage.verb->measures && cost_metric(name)->summed)) {
    for (const auto& id : needed(stage.id)) {
      const auto found = stages_.find(id);
      if (found == stages_.end() || !found->second->verb->measures) ids.push_back(id);
    }
  } else if (stage.verb->measures) {
    for (const auto& input : stage.inputs) {
      if (input.name == "from" && std::find(ids.begin(), ids.end(), input.stage_id) == ids.end()) ids.push_back(input.stage_id);
    }
  }
  return ids;
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

Reading PlanCosts::diverged(const PlannedRun& run, const std::vector<std::string>& ids) const {
  std::string problem;
  for (const auto* one : places_of(run, ids)) {
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
  const auto ids = counted(name, *planned->second);
  if (name == "diverged") return diverged(run, ids);
  const auto places = places_of(run, ids);
  double sum = 0;
  for (const auto* one : places) {
    const auto value = own(name, one->id);
    if (!value) {
      return {
          0,
          fmt::format("run {}/{}: `{}` of stage {} is not known", run.arm, run.seed, name, instance_text(one->name, one->labels)),
          false};
    }
    sum += *value * weight_of(*one, places, times);
  }
  return {sum, "", false};
}

}  // namespace moiety::host
