// What there is to compose: the worker's stage verbs and the components of all plugins found. Read from JSON that
// `moiety-worker --describe` and `--probe` print; the host itself opens no plugin and no LibTorch.
#ifndef MOIETY_KERNEL_HOST_CATALOG_H_
#define MOIETY_KERNEL_HOST_CATALOG_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernel/base/result.h"

namespace moiety::host {

/// One declared parameter of a verb, of [model] or of a component. A dot in the name is a nested table.
struct ParameterDeclaration {
  /// bool integer number text choice integers texts component layers budget, input (a stage), data (windows of the corpus),
  /// shares (name → number), sets (of a task, or label → data); `table` says of a nested table whether it is optional
  std::string name, type;
  std::string kind;     ///< of a component
  std::string accepts;  ///< of an input: the kind of artifact, "model" or "clustering"; empty: any
  bool required = false;
  nlohmann::json fallback;  ///< the default; null: absent when not given
  std::string unit, doc;
  std::optional<double> low, high;
  bool low_open = false, high_open = false;
  std::vector<std::string> choices;
};

struct OutputDeclaration {
  std::string name, unit, doc;
  int better = 0;
  std::vector<std::string> axes;
  std::string when;        ///< the key of the stage that must be given for this metric to exist ("data", "on"); empty: always
  bool is_result = false;  ///< a typed value for other stages, `${NAME.result}`
  bool is_loss = false;

  bool exists(const nlohmann::json& config) const;
};

struct InputDeclaration {
  std::string name, accepts;
  bool required = false, list = false;
};

struct VerbDeclaration {
  std::string name, summary, leaves;  ///< leaves: "model", "clustering" or "none"
  bool measures = false;              ///< evaluate, probe: what an arm runs is what these stages reach
  bool needs_corpus = false, needs_task = false;
  std::vector<InputDeclaration> inputs;
  std::vector<ParameterDeclaration> parameters;
  std::vector<OutputDeclaration> metrics, results;
  /// Purposes of random streams it draws from (init, data, noise, cluster): only these seeds are part of a stage's identity.
  std::vector<std::string> seeds;

  /// Nested tables that are absent unless written: those declared `table` with default null, and those a metric waits for.
  std::set<std::string> optional_tables() const;
  /// Whether a stage with this configuration needs a task: the verb always does, or the stage measures one ("on").
  bool uses_task(const nlohmann::json& config) const;
  /// Whether it trains for a budget: then the state on the way there can be read (`name@10%`).
  bool trains() const;
};

struct ComponentDeclaration {
  std::string kind, name, summary, source;
  int version = 1;
  std::string plugin, plugin_version, file, build_id;
  std::vector<ParameterDeclaration> parameters;
  std::vector<OutputDeclaration> outputs;

  std::string use() const { return name + "@" + std::to_string(version); }
};

/// A file that could not be used, and why.
struct PluginFailure {
  std::string file, reason;
};

struct Catalog {
  std::string worker_version, worker_build_id, torch_version, torch_build_id, cpu;
  int results_revision = 1;
  std::vector<ParameterDeclaration> model;
  std::vector<VerbDeclaration> verbs;
  std::vector<ComponentDeclaration> components;
  std::vector<PluginFailure> failures;
  std::vector<std::string> folders;  ///< searched, in order

  const VerbDeclaration* verb(const std::string& name) const;
  /// `name` or `name@version`; without a version the newest. Nothing when there is none.
  const ComponentDeclaration* component(const std::string& kind, const std::string& use) const;
  std::vector<std::string> verb_names() const;
  std::vector<std::string> component_names(const std::string& kind) const;

  /// Reads what the worker printed. An unknown field is ignored, a missing one is an error.
  static Result<Catalog> from_json(const nlohmann::json& describe, const std::vector<nlohmann::json>& probed_files);
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CATALOG_H_
