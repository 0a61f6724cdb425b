// What every verb declares and what it is handed when it runs. A verb is one file in this folder and one line in stages.cpp.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_STAGE_H_
#define MOIETY_KERNEL_ENGINE_STAGES_STAGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/engine/checkpoint/checkpoint.h"
#include "kernel/engine/checkpoint/series.h"
#include "kernel/engine/model/cost.h"
#include "kernel/engine/model/gpt.h"
#include "kernel/engine/plugins/component_set.h"
#include "kernel/engine/worker/job.h"
#include "kernel/engine/worker/protocol.h"

namespace moiety::engine {

struct StageInputDeclaration {
  const char* name;
  const char* accepts;
  bool required;
  bool list = false;  ///< several stages may be named
};

/// A table of the verb's keys that may be left out as a whole; its required keys are required where it is written.
struct OptionalTable {
  const char *name, *doc;
};

/// What a stage cost. FLOPs are counted by model/cost.h.
struct Cost {
  double tokens = 0, flops = 0;
  double total_parameters = 0, active_parameters = 0;
  double memory = 0;  ///< bytes, an estimate before the run
  double trainable_parameters = 0;
};

enum class Ending { done, diverged, interrupted };

struct StageOutcome {
  Ending ending = Ending::done;
  std::string error;           ///< why it diverged
  std::unique_ptr<Gpt> model;  ///< what it leaves, or null
  nlohmann::json results = nlohmann::json::object();
  nlohmann::json position;  ///< windows read of each domain, or null
  nlohmann::json schedule;  ///< where a continuing stage goes on (see continuation.h), or null
  Cost cost;
  double step_seconds = 0;                   ///< mean wall time of a training step; 0: there were none
  std::map<std::string, std::string> files;  ///< further files of the artifact: name → content
};

/// What a run has at hand.
struct StageContext {
  const Job& job;
  const ComponentSet& components;
  Protocol& protocol;
  Series& series;
  const CheckpointFolder& checkpoints;
  std::optional<Checkpoint> resumed;  ///< where to go on
  const std::atomic<int>& stop;       ///< a signal number once the stage shall stop
};

/// What the dry pass has at hand. Nothing is written, no tensor is made.
struct CheckContext {
  const Job& job;
  const ComponentSet& components;
  const std::map<std::string, PlannedModel>& planned;  ///< by stage, from earlier jobs of the same pass
};

struct CheckResult {
  ConfigProblems problems;
  Cost cost;
  std::optional<PlannedModel> model;  ///< what the stage will leave
};

/// A declared list: it lives as long as the program.
template <class T>
struct Listed {
  const T* data = nullptr;
  std::size_t count = 0;

  Listed() = default;
  template <std::size_t n>
  constexpr Listed(const T (&list)[n]) : data(list), count(n) {}
  const T* begin() const { return data; }
  const T* end() const { return data + count; }
};

struct Verb {
  const char* name;
  const char* summary;
  bool measures;
  const char* leaves;  ///< "model" or "none"
  std::vector<StageInputDeclaration> inputs;
  bool needs_corpus, needs_task;
  std::vector<const char*> seeds;  ///< purposes it draws from: only these decide its outcome
  Listed<Parameter> parameters;
  Listed<Output> metrics, results;
  /// Throws ComponentFailure for a component, c10 or std exceptions for defects of the engine.
  Result<StageOutcome> (*run)(StageContext&);
  CheckResult (*check)(const CheckContext&);
  std::vector<OptionalTable> tables = {};
};

/// All verbs, in the order in which they are described.
const std::vector<Verb>& verbs();
const Verb* find_verb(const std::string& name);

/// `--describe`'s "verbs".
nlohmann::json describe_verbs();

/// Keys every stage has, which the host resolves: not the verb's own.
const std::vector<std::string>& common_keys();

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_STAGE_H_
