// A plan: the runs of a recipe (arm × seed) as paths through a graph of stages, equal stages merged by identity.
#ifndef MOIETY_KERNEL_HOST_PLAN_PLAN_H_
#define MOIETY_KERNEL_HOST_PLAN_PLAN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/host/catalog.h"
#include "kernel/host/recipe/recipe.h"

namespace moiety::host {

/// What moiety-data said: hashes of the prepared content. Empty: not prepared yet.
struct PreparedData {
  std::string corpus_hash;
  std::map<std::string, std::string> task_hashes;  ///< "supersense@1" → hash
};

/// A stage as one arm has it: where a budget "flops of ARM" stands.
struct BudgetKey {
  std::string arm, stage;
  AxisLabels labels;
};
inline bool operator<(const BudgetKey& a, const BudgetKey& b) {
  return std::tie(a.arm, a.stage, a.labels) < std::tie(b.arm, b.stage, b.labels);
}

/// A size of [model] in one run of an arm.
struct SizeKey {
  std::string arm, stage;
  AxisLabels labels;
  int seed = 0;
};
inline bool operator<(const SizeKey& a, const SizeKey& b) {
  return std::tie(a.arm, a.stage, a.labels, a.seed) < std::tie(b.arm, b.stage, b.labels, b.seed);
}
struct SolvedSize {
  std::int64_t value = 0;
  double own = 0, wanted = 0;  ///< parameters of the model measured in this arm, and in the other
};

/// What becomes known while a run goes on.
struct PlanFacts {
  /// The results of a stage: the object of its manifest. Null while it has not run.
  std::function<nlohmann::json(const std::string& stage_id)> results = [](const std::string&) { return nlohmann::json(); };
  std::map<BudgetKey, std::int64_t> steps;            ///< budgets that were solved
  std::map<SizeKey, SolvedSize> sizes;                ///< sizes of models that were found
  std::map<BudgetKey, std::string> unsolvable;        ///< budgets that cannot be, and why
  std::map<BudgetKey, std::string> unsolvable_sizes;  ///< the same of sizes
  std::int64_t trial_steps = 0;                       ///< above 0: a try, in which the others have so many steps
  std::int64_t trial_size = 0;                        ///< the same of sizes

  bool has_unsolvable() const { return !unsolvable.empty() || !unsolvable_sizes.empty(); }
};

struct StageInput {
  std::string name;           ///< "from"
  std::string stage_id;       ///< identity of the stage read
  std::string snapshot = {};  ///< the point of its training that is read: "10%", "400k tokens"; empty: its end
};

struct StageComponent {
  std::string slot;  ///< path in the stage's text: "feed_forward.experts.clusterer"
  const ComponentDeclaration* component = nullptr;
};

struct PlannedStage {
  std::string id;     ///< identity: hash of all that decides the outcome (design: identity and reuse)
  std::string name;   ///< as in the recipe (the first arm that reaches it)
  AxisLabels labels;  ///< where that arm has it along the axes
  const VerbDeclaration* verb = nullptr;
  nlohmann::json config;    ///< resolved parameters, nested, every default written out
  nlohmann::json recorded;  ///< the same for the registry: a value that is another stage's result stays `${NAME.result}`, or the
                            ///< runs of one arm would seem to differ in more than their seeds; null: as `config`
  nlohmann::json model;     ///< resolved [model] when the stage starts fresh, else null
  nlohmann::json recorded_model;  ///< likewise: a size that was found stays "total parameters of ARM"; null: as `model`
  std::map<std::string, std::int64_t> seeds;  ///< all four purposes → seed; 0 for those that the verb does not draw from
  bool pinned = false;                        ///< all its seeds are fixed by the recipe and one instance serves several runs
  std::vector<StageInput> inputs;
  std::vector<StageComponent> components;            ///< own components, parts included
  std::string corpus_hash, task_hash, task;          ///< empty when the verb needs none; task: "supersense@1"
  double fraction = 1;                               ///< of the corpus
  nlohmann::json groups = nlohmann::json::object();  ///< of domains, those that its configuration names
  std::vector<std::string> snapshots;                ///< points of its training that the plan reads; not part of its identity
  bool keep_optimizer = false;                       ///< a stage of the plan continues it; not part of its identity
  std::vector<std::string> results_of;               ///< identities of the stages whose results its text took
  int threads = 1;
  std::string device, dtype;
  std::vector<std::string> arms;  ///< that reach it, as written
  nlohmann::json identity_text;   ///< what was hashed; the difference of two explains staleness
};

/// Where a run has a stage.
struct RunStage {
  std::string name;
  std::string id;
  AxisLabels labels = {};  ///< along the recipe's axes; a run has a stage once for each combination
};

/// A stage that has no identity yet: its text, or that of a stage it reads, waits for a result. Once for all seeds of an arm.
struct WaitingStage {
  std::string name, arm;
  AxisLabels labels;
  const VerbDeclaration* verb = nullptr;
  std::vector<int> seeds;
  std::vector<std::string> after;                           ///< what it waits for: names of stages
  std::vector<std::pair<std::string, std::string>> values;  ///< path in its text, stage that it waits for
  std::string problem;                                      ///< the result is known and does not fit
};

struct PlannedRun {
  std::string arm;
  int seed = 0;
  std::vector<RunStage> stages;  ///< topological order; without those that wait
  /// Runs of an arm with equal, non-empty groups share a model that other runs of the arm do not: they are one unit for
  /// statistics. A model that all runs of the arm share makes no groups; it conditions the result.
  std::string group;
  bool waits = false;         ///< some stages of it have no identity yet
  std::string unchosen = {};  ///< why stages are left out of it, in a plan as it is reported: a choice that could not be made
};

struct PlannedArm {
  std::string name;
  std::string patch_text;  ///< as JSON, for the registry and for people
};

struct Plan {
  std::string recipe_name, about, baseline, recipe_path, raw_text, resolved_text, recipe_hash;
  int seeds = 1;
  double confidence = 0.95;
  nlohmann::json corpus;           ///< resolved [corpus]; null when no stage needs one
  std::vector<std::string> tasks;  ///< "supersense@1", …
  std::vector<PlannedArm> arms;
  std::vector<PlannedStage> stages;   ///< each before its readers
  std::vector<WaitingStage> waiting;  ///< the others, each before its readers
  std::vector<PlannedRun> runs;
  Axes axes;                 ///< of the recipe, choices too
  bool provisional = false;  ///< some content is not prepared yet: the ids of stages that read it will change

  bool has_choices() const;
  const PlannedStage* stage(const std::string& id) const;
  const PlannedRun* run(const std::string& arm, int seed) const;
};

/// Runs of arms × seeds as paths through stages; equal stages are one.
Plan build_plan(const Recipe& recipe, const Catalog& catalog, const PreparedData& prepared, const PlanFacts& facts = {});

/// What distinguishes two stages, one line each, for "stale: …": `learning_rate: 0.001 → 0.002`.
std::vector<std::string> explain_difference(const nlohmann::json& before, const nlohmann::json& after);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_PLAN_PLAN_H_
