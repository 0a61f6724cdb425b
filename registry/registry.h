// The results database: one SQLite file that many processes write at once. Torch-free.
//
// A *study* is one execution of a recipe. A *run* is arm × seed: a path through the study's stages. A *stage* is identified by
// the hash of everything that decides its outcome and is shared by all runs, studies and recipes that need it. An *attempt* is
// one process that worked on a stage. Metrics belong to stages, so shared work is recorded once.
//
// Threads: a Registry may be used by one thread at a time; a MetricWriter may be fed by one thread (a lock-free queue leads to
// its own writing thread). Any number of processes may write the same file.
#ifndef MOIETY_REGISTRY_REGISTRY_H_
#define MOIETY_REGISTRY_REGISTRY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernel/base/result.h"

namespace moiety::registry {

/// Axes along which a metric was recorded beside its step: {"domain": "fiction"}, {"set": "test"}. Empty for most.
using Labels = std::map<std::string, std::string>;

struct MetricDeclaration {
  std::string name, unit;
  int better = 0;  ///< +1 higher is better, -1 lower is better, 0 neither
  std::string doc;
};

struct MetricRow {
  std::string name;
  Labels labels;
  std::int64_t step = 0;
  double value = 0;  ///< NaN and infinities are kept
};

struct StudyRow {
  std::string id;  ///< ULID, given by the caller
  std::string name, about, recipe_hash, raw_text, resolved_text, recipe_path, baseline;
  int seeds = 0;
  double confidence = 0.95;
  std::string host_build_id, git_commit, git_diff;  ///< diff empty when clean or switched off
  bool git_dirty = false;
};

struct ArmRow {
  std::string name, patch_text;
  int position = 0;  ///< order as written in the recipe
};

struct PluginRow {
  std::string kind, name, version, build_id, path;
};

struct StageRow {
  std::string id;          ///< identity: 64 hexadecimal digits
  std::string name, verb;  ///< name as in the recipe
  nlohmann::json config;   ///< resolved parameters; leaves become `param` rows, typed
  std::int64_t seed = 0;
  bool pinned = false;  ///< its seed is pinned by the recipe: one instance serves several runs
  std::vector<std::pair<std::string, std::string>> inputs;  ///< input name, stage id
  std::vector<std::pair<std::string, PluginRow>> plugins;   ///< slot ("feed_forward.router"), plugin
  std::string corpus_hash, task_hash;
};

/// Where a run has a stage. Labels along the axes of the recipe: a run has a stage once for each combination.
struct RunStageRow {
  std::string name, stage_id;
  Labels labels = {};
  Labels trial = {};  ///< along choices: a trial, of which nothing is reported until choose() says so
};

/// What an arm chose among its trials, on validation data.
struct ChoiceRow {
  std::string arm;
  Labels labels;  ///< along axes, at which it was chosen
  std::string name, label, rule;
  std::optional<double> value = {};  ///< of what `rule` names, in the mean
  std::string reason = {};           ///< why nothing could be chosen; then there is no label
};
/// A trial of a run.
struct TrialRow {
  std::string run_id, name;
  Labels labels, trial;
  bool chosen = false;
};

struct RunRow {
  std::string id;  ///< ULID
  std::string arm;
  int seed = 0;
  std::vector<RunStageRow> stages;  ///< topological order
  std::string group;  ///< pinned stages it shares: runs with equal groups are one unit for statistics ("" = own unit)
};

/// `waiting` not started; `running`; `done`; `failed`; `diverged`; `interrupted` (resumable); `skipped` (an input failed).
struct AttemptRow {
  std::string stage_id, study_id;
  int threads = 1;
  std::string device = "cpu", cpu, worker_build_id, torch_version, torch_build_id;
  std::int64_t pid = 0;
  std::string log_path;
};

struct AttemptEnd {
  std::string state;  ///< done, failed, diverged, interrupted
  int exit_code = 0, signal = 0;
  std::string error, component, function, stderr_tail;
  double wall_seconds = 0, cpu_seconds = 0;
  std::int64_t peak_memory = 0, tokens = 0;
  double flops = 0;
};

struct ArtifactRow {
  std::string stage_id, name, sha256, path;
  std::int64_t bytes = 0;
};

/// A claim as written and its verdict. All numbers are as the statistics gave them; `runs` are the ids behind the verdict.
struct ClaimRow {
  std::string id, that, source, published;
  int position = 0;
};
struct VerdictRow {
  std::string claim_id, verdict;  ///< supported, refuted, undecided; explored: reported without a verdict
  std::string statement;          ///< the part judged (a claim may have several; the whole claim has statement "")
  std::string reason;             ///< why undecided, or how decided
  std::optional<double> effect, low, high;
  int n = 0;
  std::string unit;
  std::vector<std::string> runs;
  std::string adjusted = {};  ///< of the whole claim: its verdict after Holm over all claims of the study; else ""
};

enum class OpenMode { create, update, existing, read_only };

class Registry {
 public:
  /// Opens the file, migrating an older one (backup first, one transaction, version re-read inside it). A file of a newer
  /// Moiety is refused untouched with its version. `create` makes a missing file. For `read_only` and `update` (which writes) a
  /// missing one is the user's mistake (`usage`), for `existing`, which is how the processes of a run open it, it has vanished
  /// meanwhile (`environment`).
  static Result<Registry> open(const std::string& path, OpenMode mode);
  Registry(Registry&&) noexcept;
  Registry& operator=(Registry&&) noexcept;
  ~Registry();

  /// Lines for the user's standard error: a file was created, migrated, or lies on a network file system.
  const std::vector<std::string>& notices() const;

  Status begin_study(const StudyRow& study, const std::vector<ArmRow>& arms, const std::vector<ClaimRow>& claims);
  /// A run known already gets the stages that it does not have yet: some are known only when others have run.
  Status add_run(const std::string& study_id, const RunRow& run);
  /// Idempotent: a stage known already keeps its rows.
  Status add_stage(const StageRow& stage);
  Status end_study(const std::string& study_id, const std::string& state);

  Result<std::int64_t> begin_attempt(const AttemptRow& attempt);  ///< also sets the stage `running`
  /// Names the process that works on the attempt, when it began after the attempt did. (A MetricWriter does so for its own.)
  Status attempt_process(std::int64_t attempt, std::int64_t pid);
  Status heartbeat(std::int64_t attempt);
  Status end_attempt(std::int64_t attempt, const AttemptEnd& end);  ///< also sets the stage's state
  Status set_stage_state(const std::string& stage_id, const std::string& state);
  /// Marks attempts left `running` by a process of this host that is gone as `interrupted` (pid and start time are compared);
  /// those of other hosts are left alone (T07).
  Status reap_dead_attempts();

  Status add_artifact(const ArtifactRow& artifact);
  Status declare_metrics(const std::vector<MetricDeclaration>& metrics);
  /// One transaction; committed when it returns. Equal (stage, name, labels, step) replaces: a resumed stage writes again, equal.
  Status write_metrics(const std::string& stage_id, const std::vector<MetricRow>& rows);
  /// Replaces what was chosen in the study before. A trial that is not named stays as it is.
  Status write_choices(const std::string& study_id, const std::vector<ChoiceRow>& choices, const std::vector<TrialRow>& trials);
  Status write_verdicts(const std::string& study_id, const std::vector<VerdictRow>& verdicts);
  Status event(const std::string& study_id, const std::string& stage_id, const std::string& level, const std::string& source,
               const std::string& message);

  /// Final (last-step) values of a metric of a stage, with labels. For claims.
  Result<std::vector<MetricRow>> final_metrics(const std::string& stage_id);
  /// The whole series, ordered by name, labels, step.
  Result<std::vector<MetricRow>> series(const std::string& stage_id);
  Result<std::string> stage_state(const std::string& stage_id);  ///< "" when unknown

  struct Connection;
  Connection& connection() { return *connection_; }  ///< for the readers beside this file

 private:
  explicit Registry(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

/// Metrics of a running stage: `log` puts a row into a lock-free queue and returns; a thread with its own connection commits
/// every 0.5 s, every 500 rows, and at `flush`. A row is acknowledged when a later `flush` has returned.
class MetricWriter {
 public:
  static Result<std::unique_ptr<MetricWriter>> open(const std::string& registry_path, const std::string& stage_id,
                                                    std::int64_t attempt);
  virtual ~MetricWriter() = default;
  virtual void log(const MetricRow& row) = 0;
  /// Waits until all rows given so far are committed; returns what the writing thread met (disk full: `environment`).
  virtual Status flush() = 0;
};

}  // namespace moiety::registry

#endif  // MOIETY_REGISTRY_REGISTRY_H_
