// The job that the host hands to a worker: one stage, with everything it reads by path.
#ifndef MOIETY_KERNEL_ENGINE_WORKER_JOB_H_
#define MOIETY_KERNEL_ENGINE_WORKER_JOB_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernel/base/result.h"
#include "moiety/random.h"

namespace moiety::engine {

struct Seeds {
  std::int64_t init = 0, data = 0, noise = 0, cluster = 0;
};

struct JobInput {
  std::string name, stage, path;
  std::string snapshot;  ///< of the stage, "10%" or "400k tokens"; empty: as it ended
};

/// A domain made of others: of these, or of all without these.
struct JobGroup {
  std::vector<std::string> of, without;
};

struct JobComponent {
  std::string slot, kind, name, file, build_id;
  int version = 1;
};

struct Job {
  std::string stage, name, verb;
  Seeds seeds;
  nlohmann::json config, model;  ///< resolved parameters of the stage; of [model] (null when the stage reads one)
  std::vector<JobInput> inputs;
  std::string corpus, corpus_hash, task, task_hash;  ///< folders; empty: none
  double corpus_fraction = 1;                        ///< of each domain's training text, from its beginning
  std::map<std::string, JobGroup> groups;            ///< that the config mentions
  std::vector<std::string> snapshots;                ///< of this stage that others read
  bool keep_optimizer = false;                       ///< a stage goes on from the artifact
  std::vector<JobComponent> components;
  std::string registry, work, artifact;
  std::int64_t attempt = 0;
  int threads = 1;
  double checkpoint_seconds = 30;

  static Result<Job> read(const std::string& path);
  static Result<Job> from_json(const nlohmann::json& json);
  const JobInput* input(const std::string& input_name) const;  ///< the first of that name, or null
  /// Of an input that is a list, in the order of the recipe.
  std::vector<const JobInput*> all_inputs(const std::string& input_name) const;
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_WORKER_JOB_H_
