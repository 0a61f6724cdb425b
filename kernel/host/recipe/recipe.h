// A recipe, read, checked and resolved: what `moiety run`, `plan` and `recipe resolve` work with.
//
//   auto recipe = load_recipe("recipes/quickstart.toml", catalog, {});
//   if (!recipe) { print recipe.error().message; return recipe.error().exit_code(); }
//   auto plan = build_plan(*recipe, catalog, prepared);
#ifndef MOIETY_KERNEL_HOST_RECIPE_RECIPE_H_
#define MOIETY_KERNEL_HOST_RECIPE_RECIPE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/host/catalog.h"
#include "kernel/host/claims/claim.h"
#include "kernel/host/recipe/axes.h"
#include "kernel/host/recipe/check.h"
#include "kernel/host/recipe/document.h"
#include "kernel/host/recipe/value.h"

namespace moiety::host {

/// What seeds a stage takes: purpose → seeds. No entry: the run's seed. One: pinned. Several: the runs take turns.
struct SeedRule {
  std::map<std::string, std::vector<std::int64_t>> purposes;

  /// Of the run with this seed (1, 2, …).
  std::int64_t of(const std::string& purpose, int run_seed) const;
};

/// The purposes of random streams: weights at the start, order of data, dropout and gate noise, clustering.
const std::vector<std::string>& seed_purposes();

/// An instance of a stage that another one reads.
struct StageRead {
  std::string stage;
  AxisLabels labels;
  std::string snapshot = {};  ///< the point of its training that is read: "10%", "400k tokens"; empty: its end
};

/// A value of another stage that this one's text mentions: `${NAME.result}`. It is known when NAME has run.
struct ResultRead {
  std::string stage;
  AxisLabels labels;
  std::string result;
  Place place;  ///< of the text with the reference
};

/// A number of [model] that is found so that the model measured has as many parameters as that of another arm.
struct ModelSize {
  std::string parameter, text;  ///< "feed_forward_width", "total parameters of cse-ffn"
  bool active = false;
  std::string of;
  Place place;
  std::int64_t low = 1, high = 1;  ///< what the parameter may be
};

/// A stage as one arm has it, at one label of each axis that it varies along.
struct RecipeStage {
  std::string name;
  AxisLabels labels;
  const VerbDeclaration* verb = nullptr;
  nlohmann::json config;          ///< resolved parameters of the verb, nested, every default written out
  nlohmann::json model;           ///< resolved [model] when it starts fresh, else null
  std::optional<ModelSize> size;  ///< of `model`, which has null in its place
  /// Input name (of the verb: `from`; of a parameter: its slot, `sampler.clusters`), stages read.
  std::vector<std::pair<std::string, std::vector<StageRead>>> inputs;
  std::vector<ResultRead> results;  ///< while there are any, the values of `config` that mention them are their text
  std::vector<UsedComponent> components;
  SeedRule seed;
  int threads = 1;
  std::string device = "cpu", dtype = "fp32";
  std::string task;        ///< "supersense@1": its own, or that of the models it reads
  std::string model_task;  ///< what the model it leaves was tuned for; a stage that only changes the model hands it on
  Value text;              ///< the resolved table as recipe text
  Place place;
  bool flawed = false;           ///< errors were told about it
  bool lacks_component = false;  ///< one that its verb asks for by name was not found: what it measures is not known

  /// The stages read by one input; null when there are none.
  const std::vector<StageRead>* input(const std::string& input_name) const;
  /// The arm whose total its budget is to reach; null when it says itself how long it trains.
  const std::string* budget_of() const;
  /// Its budget becomes steps when it is known what they cost: another arm's total, or an amount of flops.
  bool has_open_budget() const;
  /// Its verb always reads text, or the stage selects windows of it.
  bool reads_corpus() const;
  /// Results that its verb and its components declare.
  std::vector<std::string> result_names() const;
};

struct RecipeArm {
  std::string name;
  nlohmann::json patch;
  std::vector<RecipeStage> stages;  ///< reached by its measuring stages; each before its readers
  Place place;
  std::shared_ptr<const Value> root;  ///< the recipe as the arm has it, while some stage of it waits for a result

  /// The first of its instances.
  const RecipeStage* stage(const std::string& stage_name) const;
  std::vector<const RecipeStage*> instances(const std::string& stage_name) const;
};

struct LoadOptions {
  std::vector<Override> overrides;                          ///< --set and --unset
  std::map<std::string, int> corpora;                       ///< known corpora and their newest version; empty: not checked
  std::map<std::string, int> tasks;                         ///< known tasks likewise
  std::map<std::string, std::vector<std::string>> domains;  ///< of known corpora; one that is missing: not checked
};

struct RunLimits {
  double call_seconds = 600;         ///< one call of a component
  std::int64_t memory = 4294967296;  ///< bytes of a worker
};

struct Recipe {
  std::string name, about, baseline, path, raw_text;
  int seeds = 1;
  double confidence = 0.95;
  nlohmann::json corpus;  ///< resolved [corpus] without its groups and its fraction; null when there is none
  nlohmann::json groups = nlohmann::json::object();  ///< name → {"of": […]} or {"without": […]}
  double fraction = 1;                               ///< of the corpus that is used
  bool needs_corpus = false;                         ///< some stage of some arm reads text or a task made from it
  std::vector<std::string> tasks;                    ///< that stages of some arm need
  RunLimits limits;
  Axes axes;
  std::vector<RecipeArm> arms;       ///< as written
  std::vector<Claim> claims;         ///< as written, checked
  std::string resolved_text;         ///< every default and version written out; resolving it gives itself
  std::string resolved_origins;      ///< the same with a comment a leaf: where it comes from
  std::string hash;                  ///< of what is resolved, not of how it was written
  LoadOptions options;               ///< it was read with
  std::vector<std::string> domains;  ///< of the corpus, with its groups; empty: not known

  const RecipeArm* arm(const std::string& arm_name) const;
};

/// Reads, merges, checks and resolves. The message of the error (kind `usage`) is the whole text for the terminal: every error
/// with its line and a caret, and the closing line.
Result<Recipe> load_recipe(const std::string& path, const Catalog& catalog, const LoadOptions& options);

/// Names and newest versions of the files in `folder` (recipes/corpora, recipes/tasks): their keys `name` and `version`.
std::map<std::string, int> known_data(const std::string& folder);
/// Names of the domains that the corpora in `folder` have.
std::map<std::string, std::vector<std::string>> known_domains(const std::string& folder);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_RECIPE_H_
