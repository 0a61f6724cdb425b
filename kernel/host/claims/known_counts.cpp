#include "kernel/host/claims/known_counts.h"

#include "kernel/host/json_fields.h"

namespace moiety::host {
namespace {

StageCounts counts_of_dry_pass(const DryPass& dry_pass, const std::string& id) {
  const auto found = dry_pass.costs.find(id);
  if (found == dry_pass.costs.end()) return {};
  const StageCost& cost = found->second;
  if (cost.estimate) return {};
  StageCounts counts = {{"tokens", cost.tokens}, {"flops", cost.flops}};
  // A stage that leaves no model has none.
  if (cost.total_parameters > 0) counts["total_parameters"] = cost.total_parameters;
  if (cost.active_parameters > 0) counts["active_parameters"] = cost.active_parameters;
  return counts;
}

StageCounts counts_of_store(const Store& store, const std::string& id) {
  StageCounts counts;
  const auto stored = store.look_up(id);
  if (stored.state != StoredStage::State::whole) return counts;
  const auto& cost = member_at(stored.manifest, "cost");
  for (const auto& metric : cost_metrics()) {
    const auto& name = metric.declaration.name;
    const auto amount = real_at(cost, name.c_str());
    const bool of_model = name.find("parameters") != std::string::npos;
    if (amount && !(of_model && *amount <= 0)) counts[name] = *amount;
  }
  return counts;
}

/// What `first` does not say is taken from `second`.
StageCounts merged(StageCounts first, const StageCounts& second) {
  first.insert(second.begin(), second.end());
  return first;
}

}  // namespace

CountsOf planned_counts(const DryPass& dry_pass, const Store& store) {
  return
      [&dry_pass, &store](const std::string& id) { return merged(counts_of_dry_pass(dry_pass, id), counts_of_store(store, id)); };
}

CountsOf recorded_counts(const DryPass& dry_pass, const Store& store) {
  return
      [&dry_pass, &store](const std::string& id) { return merged(counts_of_store(store, id), counts_of_dry_pass(dry_pass, id)); };
}

}  // namespace moiety::host
