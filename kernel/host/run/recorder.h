// What a run leaves in the registry: study, arms, runs, stages, attempts, artifacts, events.
#ifndef MOIETY_KERNEL_HOST_RUN_RECORDER_H_
#define MOIETY_KERNEL_HOST_RUN_RECORDER_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/host/plan/plan.h"
#include "kernel/host/run/provenance.h"
#include "kernel/host/run/stage_end.h"
#include "kernel/host/run/store.h"
#include "registry/registry.h"

namespace moiety::host {

class Recorder {
 public:
  Recorder(registry::Registry& registry, const Plan& plan, const Catalog& catalog, const Store& store)
      : registry_(registry), plan_(&plan), catalog_(catalog), store_(store) {}

  /// Writes study, arms, claims, stages and runs. A study of the same resolved recipe over the same stages that is there already
  /// is gone on with (T14, T17: asked for n runs, there are n, however often one resumes). Attempts of dead processes are ended.
  Status begin(const std::vector<registry::ClaimRow>& claims, const Provenance& provenance);
  /// The plan knows more stages than before, of the same runs: they are written too. It must outlive the recorder.
  Status extend(const Plan& plan);
  const std::string& study() const { return study_; }
  bool continued() const { return continued_; }
  /// Id of a run in the registry; "" for one that is not of the plan.
  std::string run_id(const std::string& arm, int seed) const;

  Result<std::int64_t> begin_attempt(const PlannedStage& stage, const std::string& log, std::int64_t pid);
  Status set_process(std::int64_t attempt, std::int64_t pid) { return registry_.attempt_process(attempt, pid); }
  Status heartbeat(std::int64_t attempt) { return registry_.heartbeat(attempt); }
  /// The attempt's end and the stage's state; artifacts when done.
  Status end_attempt(const PlannedStage& stage, std::int64_t attempt, const StageEnd& end, const std::string& stderr_tail);
  Status skip(const PlannedStage& stage) { return registry_.set_stage_state(stage.id, "skipped"); }
  /// State of the stage in the registry; "" when unknown.
  Result<std::string> state(const PlannedStage& stage) { return registry_.stage_state(stage.id); }
  /// From the store's artifact: metrics, artifacts, cost, state.
  Status fill(const PlannedStage& stage, const nlohmann::json& manifest);
  Status event(const std::string& stage_id, const std::string& level, const std::string& message) {
    return registry_.event(study_, stage_id, level, "moiety run", message);
  }
  Status end(const std::string& state) { return registry_.end_study(study_, state); }

 private:
  Status add_stages();
  Status find_study(std::vector<registry::RunRow>* runs);
  Status add_artifacts(const PlannedStage& stage, const nlohmann::json& manifest);

  registry::Registry& registry_;
  const Plan* plan_;
  const Catalog& catalog_;
  const Store& store_;
  std::string study_;
  std::map<std::pair<std::string, int>, std::string> run_ids_;
  bool continued_ = false;
};

/// Rows of a series.jsonl; a line that cannot be read is an error with its number.
Result<std::vector<registry::MetricRow>> read_series(const std::string& path);

/// Declarations of all metrics that the plan's verbs and components name.
std::vector<registry::MetricDeclaration> declared_metrics(const Plan& plan);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RUN_RECORDER_H_
