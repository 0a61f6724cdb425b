#include "kernel/host/claims/stage_metrics.h"

#include <algorithm>
#include <set>

#include "kernel/host/claims/costs.h"

namespace moiety::host {

namespace {

/// What a stage declares: the metrics of its verb, then those of its components.
std::vector<const OutputDeclaration*> declared_metrics(const RecipeStage& stage) {
  std::vector<const OutputDeclaration*> found;
  for (const auto& metric : stage.verb->metrics) {
    if (metric.exists(stage.config)) found.push_back(&metric);
  }
  for (const auto& used : stage.components) {
    for (const auto& output : used.component->outputs) {
      if (!output.is_result && !output.is_loss && output.exists(stage.config)) found.push_back(&output);
    }
  }
  return found;
}

/// The texts of a list, or of one alone.
std::vector<std::string> texts_of(const nlohmann::json& value) {
  std::vector<std::string> texts;
  if (value.is_string()) texts.push_back(value.get<std::string>());
  if (!value.is_array()) return texts;
  for (const auto& item : value) {
    if (item.is_string()) texts.push_back(item.get<std::string>());
  }
  return texts;
}

const nlohmann::json& config_at(const RecipeStage& stage, const char* table, const char* key) {
  static const nlohmann::json nothing;
  const nlohmann::json* at = &stage.config;
  for (const char* part : {table, key}) {
    if (part == nullptr) continue;
    if (!at->is_object() || !at->contains(part)) return nothing;
    at = &at->at(part);
  }
  return *at;
}

}  // namespace

const OutputDeclaration* declared_metric(const RecipeStage& stage, const std::string& name) {
  const auto all = declared_metrics(stage);
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto* metric) { return metric->name == name; });
  return found == all.end() ? nullptr : *found;
}

const OutputDeclaration* metric_of(const RecipeStage& stage, const std::string& name) {
  if (const auto* declared = declared_metric(stage, name)) return declared;
  const auto* cost = cost_metric(name);
  return cost != nullptr ? &cost->declaration : nullptr;
}

std::vector<std::string> metrics_of(const RecipeStage& stage) {
  std::vector<std::string> names;
  for (const auto* metric : declared_metrics(stage)) {
    if (std::find(names.begin(), names.end(), metric->name) == names.end()) names.push_back(metric->name);
  }
  return names;
}

std::vector<std::string> axes_of(const RecipeStage& stage, const OutputDeclaration& metric) {
  std::vector<std::string> axes;
  for (const auto& [axis, label] : stage.labels) axes.push_back(axis);
  if (&metric != declared_metric(stage, metric.name)) return axes;
  // A stage that measures several points of a training does so for each of its metrics.
  const bool progress = stage.verb->measures && !texts_of(config_at(stage, nullptr, "at")).empty();
  for (const auto& axis : metric.axes) {
    if (axis != "progress" || progress || !stage.verb->measures) axes.push_back(axis);
  }
  if (progress && std::find(axes.begin(), axes.end(), "progress") == axes.end()) axes.emplace_back("progress");
  return axes;
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
  if (axis == "progress") return texts_of(config_at(stage, nullptr, "at"));
  if (axis == "domain") return texts_of(config_at(stage, "data", "domains"));
  if (axis != "set") return {};
  const auto& on = config_at(stage, nullptr, "on");
  std::vector<std::string> labels = texts_of(on);
  if (!on.is_object()) return labels;
  for (const auto& [label, data] : on.items()) labels.push_back(label);
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
