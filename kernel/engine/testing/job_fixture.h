// Jobs on tiny data, run in this process or by moiety-worker, for tests.
#ifndef MOIETY_KERNEL_ENGINE_TESTING_JOB_FIXTURE_H_
#define MOIETY_KERNEL_ENGINE_TESTING_JOB_FIXTURE_H_

#include <sys/types.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernel/base/files.h"
#include "moiety/weights.h"

namespace moiety::engine::testing {

/// A store with a tiny corpus and task. Folders go when the object goes.
class TinyStore {
 public:
  TinyStore();

  nlohmann::json pretrain(const std::string& name, const nlohmann::json& changes = {}) const;
  nlohmann::json construct(const std::string& name, const std::string& from, const nlohmann::json& router,
                           const nlohmann::json& experts = {}) const;
  /// Trains on from a model.
  nlohmann::json topics(const std::string& name) const;  ///< three clusters of windows
  /// A model for each cluster; `from` may be empty.
  nlohmann::json whole_models(const std::string& name, const std::string& from, const std::string& clusters,
                              const nlohmann::json& experts = {{"use", "copy"}, {"count", 3}}) const;
  nlohmann::json pretrain_from(const std::string& name, const std::string& from, const nlohmann::json& changes = {}) const;
  /// CSE's sites: copies, one a cluster of the training windows, routed by sequence.
  nlohmann::json cluster_experts(const std::string& name, const std::string& from, const nlohmann::json& router = {}) const;
  nlohmann::json finetune(const std::string& name, const std::string& from, const nlohmann::json& changes = {}) const;
  nlohmann::json evaluate(const std::string& name, const std::string& from, const nlohmann::json& config) const;

  std::string artifact(const std::string& name) const { return folder_ / ("objects/" + name); }
  std::string work(const std::string& name) const { return folder_ / ("work/" + name); }
  std::string corpus() const { return folder_ / "corpus"; }
  std::string task() const { return folder_ / "task"; }
  std::string path(const std::string& name) const { return folder_ / name; }
  std::string file(const std::string& name,
                   const std::string& file_name) const;  ///< content of a file of an artifact; "" when there is none
  std::string digest(const std::string& name, const std::string& file_name) const;  ///< its SHA-256
  nlohmann::json manifest(const std::string& name) const;
  TensorMap tensors(const std::string& name, const std::string& file_name = "model.safetensors") const;

 private:
  nlohmann::json job(const std::string& verb, const std::string& name, const std::string& from, nlohmann::json config) const;
  TemporaryFolder folder_;
  std::string corpus_hash_, task_hash_;
};

/// Runs the job here. `stop`: a signal number that is there from the beginning, so that one step is done and a checkpoint
/// written.
int run_here(const nlohmann::json& job, int stop = 0);

/// Runs the job here, stopped after every step and resumed until it ends: the last exit code.
int run_stopped_at_every_step(const nlohmann::json& job);

/// What the dry pass says of the job: its "problems" and its "cost".
nlohmann::json planned(const nlohmann::json& job);
/// The path of the first problem that the dry pass tells of the job; "none" when it tells none.
std::string first_problem(const nlohmann::json& job);

/// Adds a component of the built plugins ("lib/moiety", or "lib/moiety-bad") to a job.
void add_component(nlohmann::json& job, const std::string& kind, const std::string& name, const std::string& folder,
                   const std::string& file);

/// A worker of its own.
class WorkerProcess {
 public:
  /// `limits`: shell commands before it starts ("ulimit -f 100"). Its standard error goes to the job's work folder.
  WorkerProcess(const nlohmann::json& job, const std::string& limits = {});
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  bool wait_for(const std::string& key);  ///< reads lines until one has this key; false at the end of its output
  void signal(int number) const;
  pid_t pid() const { return pid_; }
  /// Reads to the end and waits: the exit code, or minus the signal that ended it.
  int finish();
  const std::vector<nlohmann::json>& lines() const { return lines_; }
  nlohmann::json last(const std::string& key) const;  ///< the newest line's value of this key, or null
  std::string errors() const;                         ///< what it said on standard error

 private:
  bool read_line();
  pid_t pid_ = -1;
  int output_ = -1;
  std::string rest_, log_;
  std::vector<nlohmann::json> lines_;
};

}  // namespace moiety::engine::testing

#endif  // MOIETY_KERNEL_ENGINE_TESTING_JOB_FIXTURE_H_
