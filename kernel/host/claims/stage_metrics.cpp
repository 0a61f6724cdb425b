#include "kernel/host/claims/stage_metrics.h"

#include <algorithm>
#include <set>

#include "kernel/host/claims/costs.h"

namespace moiety::host {

const OutputDeclaration* declared_metric(const RecipeStage& stage, const std::string& name) {
  for (const auto& metric : stage.verb->metrics) {
    if (metric.name == name && metric.exists(stage.config)) return &metric;
  }
  return nullptr;
}

const OutputDeclaration* metric_of(const RecipeStage& stage, const std::string& name) {
  if (const auto* declared = declared_metric(stage, name)) return declared;
  const auto* cost = cost_metric(name);
  return cost != nullptr ? &cost->declaration : nullptr;
}

std::vector<std::string> metrics_of(const RecipeStage& stage) {
  std::vector<std::string> names;
  for (const auto& metric : stage.verb->metrics) {
    if (metric.exists(stage.config)) names.push_back(metric.name);
  }
  return names;
}

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

bool costs_along(const RecipeArm& arm, const RecipeStage& stage, const std::string& axis) {
  std::set<std::string> seen;
  std::vector<const RecipeStage*> open = {&stage};
  while (!open.empty()) {
    const RecipeStage* one = open.back();
    open.pop_back();
    if (one->labels.count(axis) != 0) return true;
    for (const auto& [input, reads] : one->inputs) {
      for (const auto& read : reads) {
        const RecipeStage* next = seen.insert(read.stage).second ? arm.stage(read.stage) : nullptr;
        if (next != nullptr) open.push_back(next);
      }
    }
  }
  return false;
}

bool reads_alike(const RecipeStage& a, const RecipeStage& b) {
  return std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && std::equal(x.second.begin(), x.second.end(), y.second.begin(), y.second.end(),
                                            [](const StageRead& one, const StageRead& other) {
                                              return one.stage == other.stage && one.labels == other.labels;
                                            });
  });
}

}  // namespace moiety::host
