// A plan: the runs of a recipe (arm × seed) as paths through a graph of stages, equal stages merged by identity.
#ifndef MOIETY_KERNEL_HOST_PLAN_PLAN_H_
#define MOIETY_KERNEL_HOST_PLAN_PLAN_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/host/catalog.h"

namespace moiety::host {

struct StageInput {
  std::string name;      ///< "from"
  std::string stage_id;  ///< identity of the stage read
};

struct StageComponent {
  std::string slot;  ///< path in the stage's text: "feed_forward.experts.clusterer"
  const ComponentDeclaration* component = nullptr;
};

struct PlannedStage {
  std::string id;    ///< identity: hash of all that decides the outcome (design: identity and reuse)
  std::string name;  ///< as in the recipe (the first arm that reaches it)
  const VerbDeclaration* verb = nullptr;
  nlohmann::json config;                       ///< resolved parameters, nested, every default written out
  nlohmann::json model;                        ///< resolved [model] when the stage starts fresh, else null
  std::map<std::string, std::int64_t> seeds;   ///< purpose (init, data, noise, cluster) → seed
  bool pinned = false;
  std::vector<StageInput> inputs;
  std::vector<StageComponent> components;      ///< own components, parts included
  std::string corpus_hash, task_hash, task;    ///< empty when the verb needs none; task: "supersense@1"
  int threads = 1;
  std::vector<std::string> arms;               ///< that reach it, as written
  nlohmann::json identity_text;                ///< what was hashed; the difference of two explains staleness
};

struct PlannedRun {
  std::string arm;
  int seed = 0;
  std::vector<std::pair<std::string, std::string>> stages;  ///< (stage name, stage id), topological order
  std::string group;  ///< see registry::RunRow::group: ids of pinned training stages it shares with other runs
};

struct PlannedArm {
  std::string name;
  std::string patch_text;  ///< as JSON, for the registry and for people
};

struct Claim;  // kernel/host/claims/claim.h

struct Plan {
  std::string recipe_name, about, baseline, recipe_path, raw_text, resolved_text, recipe_hash;
  int seeds = 1;
  double confidence = 0.95;
  nlohmann::json corpus;            ///< resolved [corpus]; null when no stage needs one
  std::vector<std::string> tasks;   ///< "supersense@1", …
  std::vector<PlannedArm> arms;
  std::vector<PlannedStage> stages;  ///< each before its readers
  std::vector<PlannedRun> runs;

  const PlannedStage* stage(const std::string& id) const;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_PLAN_PLAN_H_
