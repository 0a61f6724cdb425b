// From the command line to a plan: what `moiety run`, `moiety plan` and `moiety recipe resolve` do before they differ.
#ifndef MOIETY_KERNEL_HOST_RUN_SESSION_H_
#define MOIETY_KERNEL_HOST_RUN_SESSION_H_

#include <memory>
#include <string>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/host/discovery/discovery.h"
#include "kernel/host/plan/plan.h"
#include "kernel/host/recipe/recipe.h"
#include "kernel/host/run/data_client.h"
#include "kernel/host/run/dry_pass.h"

namespace moiety::host {

struct RecipeRequest {
  std::string path;
  std::vector<Override> overrides;
  std::vector<std::string> plugin_paths;
  bool trust_plugins = false;
  std::string store;
  bool quiet = false;
};

/// A recipe with the catalog it was resolved against. Its address must not change: plans point into it.
struct Session {
  RecipeRequest request;
  std::string worker, recipes;
  Discovery discovery;
  Recipe recipe;
  std::vector<std::string> notes;  ///< for the user's stderr: a plugin path of the recipe that was not trusted

  const Catalog& catalog() const { return discovery.catalog; }
};

/// Finds the worker, the plugins and resolves the recipe. Errors: usage (the recipe is wrong; the message is the whole text),
/// environment. Writes at most the catalog's cache, and that only when the recipe is right or the store is there already.
Result<std::unique_ptr<Session>> open_session(const RecipeRequest& request);

/// Corpus and tasks of the recipe (check_only: only what is there already).
Result<PreparedFolders> prepare_for(const Session& session, bool check_only);
/// Their hashes, for build_plan.
PreparedData hashes_of(const Session& session, const PreparedFolders& folders);

/// What the store knows: results of stages that have run.
PlanFacts facts_of(const Store& store);

/// Solves the sizes and budgets that are another arm's total, where all of both arms is known by now; asks the worker what
/// stages cost.
Status solve_totals(const Session& session, const PreparedFolders& folders, const Store& store, const std::string& registry,
                    PlanFacts& facts);
/// Those that cannot be solved, with the place in the recipe that each is about.
std::string unsolvable_text(const Session& session, const PlanFacts& facts);

/// The dry pass's problems with the place in the recipe that each is about.
std::string problems_text(const Session& session, const std::vector<StageProblem>& problems);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RUN_SESSION_H_
