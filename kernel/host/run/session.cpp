#include "kernel/host/run/session.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "kernel/base/text.h"
#include "kernel/host/discovery/locate.h"
#include "kernel/host/json_fields.h"
#include "kernel/host/plan/budgets.h"
#include "kernel/host/plan/sizes.h"
#include "kernel/host/recipe/plugin_paths.h"

namespace moiety::host {
namespace fs = std::filesystem;
namespace {

/// Where a problem's path was written: the longest part of it that the recipe writes.
Place place_of(const RecipeStage& stage, const std::string& path) {
  auto parts = path.empty() ? std::vector<std::string>{} : split_path(path);
  while (!parts.empty()) {
    if (const auto* member = stage.text.find_member(parts); member != nullptr) {
      if (member->value.place.known()) return member->value.place;
      if (member->key.known()) return member->key;
    }
    parts.pop_back();
  }
  return stage.place;
}

}  // namespace

Result<std::unique_ptr<Session>> open_session(const RecipeRequest& request) {
  std::error_code error;
  if (!fs::exists(request.path, error)) {
    std::vector<std::string> others;
    const auto parent = fs::path(request.path).parent_path();
    for (auto entry = fs::directory_iterator(parent.empty() ? "." : parent, error); !error && entry != fs::directory_iterator();
         entry.increment(error)) {
      if (entry->path().extension() == ".toml") others.push_back((parent / entry->path().filename()).string());
    }
    return fail(ErrorKind::usage, "there is no recipe " + printable(request.path), did_you_mean(request.path, others));
  }
  auto worker = find_worker();
  if (!worker) return pass(worker);
  auto recipes = find_recipes_folder();
  if (!recipes) return pass(recipes);

  DiscoveryOptions options;
  options.worker = *worker;
  options.store = request.store;
  const auto own_paths = plugin_paths(request.path, request.overrides);
  options.order = search_order(request.plugin_paths, request.trust_plugins ? own_paths : std::vector<std::string>{});
  auto discovery = discover(options);
  if (!discovery) return pass(discovery);
  auto session = std::unique_ptr<Session>(new Session{request, *worker, *recipes, std::move(*discovery), {}, {}});
  if (!own_paths.empty() && !request.trust_plugins)
    session->notes.push_back("the recipe's own plugins.path (" + printable(join(own_paths, ", ")) +
                             ") is not searched without --trust-plugins: add it if you trust the libraries that lie there");

  LoadOptions load;
  load.overrides = request.overrides;
  load.corpora = known_data(*recipes + "/corpora");
  load.tasks = known_data(*recipes + "/tasks");
  load.domains = known_domains(*recipes + "/corpora");
  auto recipe = load_recipe(request.path, session->catalog(), load);
  session->discovery.cache.save(recipe.has_value());
  if (!recipe) {
    // A component may be missing because its folder was not trusted: then that note explains the error.
    auto failure = recipe.error();
    for (const auto& note : session->notes) failure.hint += (failure.hint.empty() ? "" : "\n") + note;
    return tl::unexpected<Error>(std::move(failure));
  }
  session->recipe = std::move(*recipe);
  return session;
}

Result<PreparedFolders> prepare_for(const Session& session, bool check_only) {
  if (!session.recipe.needs_corpus) return PreparedFolders{};
  auto program = find_data_program();
  if (!program) return pass(program);
  DataRequest request;
  request.corpus = session.recipe.corpus;
  request.tasks = session.recipe.tasks;
  request.program = *program;
  request.store = session.request.store;
  request.recipes = session.recipes;
  request.check_only = check_only;
  request.quiet = session.request.quiet;
  return prepare_data(request);
}

PreparedData hashes_of(const Session& session, const PreparedFolders& folders) {
  PreparedData hashes;
  hashes.corpus_hash = folders.corpus.hash;
  for (const auto& task : session.recipe.tasks) {
    if (const auto found = folders.tasks.find(task); found != folders.tasks.end()) hashes.task_hashes[task] = found->second.hash;
  }
  return hashes;
}

PlanFacts facts_of(const Store& store) {
  PlanFacts facts;
  facts.results = [&store](const std::string& id) {
    const auto stored = store.look_up(id);
    if (stored.state != StoredStage::State::whole) return nlohmann::json();
    const auto& results = member_at(stored.manifest, "results");
    return results.is_object() ? results : nlohmann::json::object();
  };
  return facts;
}

Status solve_totals(const Session& session, const PreparedFolders& folders, const Store& store, const std::string& registry,
                    PlanFacts& facts) {
  const AskCosts ask = [&](const Plan& plan,
                           const std::vector<const PlannedStage*>& stages) -> Result<std::map<std::string, BudgetCost>> {
    const auto checked = dry_pass({plan, session.catalog(), store, folders, registry}, session.worker, stages);
    if (!checked) return pass(checked);
    std::map<std::string, BudgetCost> costs;
    for (const auto& [id, cost] : checked->costs)
      costs[id] = {cost.flops, cost.tokens, cost.total_parameters, cost.active_parameters, cost.estimate};
    return costs;
  };
  const auto prepared = hashes_of(session, folders);
  if (auto status = solve_sizes(session.recipe, session.catalog(), prepared, ask, facts); !status) return status;
  return solve_budgets(session.recipe, session.catalog(), prepared, ask, facts);
}

namespace {

/// Reads the recipe again for the lines to show (it keeps places, not text), and shows what is told about stages.
class StageDiagnostics {
 public:
  explicit StageDiagnostics(const Session& session) : session_(session), ignored_(sources_), diagnostics_(sources_) {
    load_document(session.request.path, session.request.overrides, sources_, ignored_);
  }

  void add(const std::string& name, const std::vector<std::string>& arms, const std::string& path, const std::string& message) {
    const RecipeStage* stage = nullptr;
    for (const auto& arm : session_.recipe.arms) {
      if (std::find(arms.begin(), arms.end(), arm.name) == arms.end()) continue;
      stage = arm.stage(name);
      if (stage != nullptr) break;
    }
    const std::string where = "stage." + name + (path.empty() ? "" : "." + path);
    diagnostics_.error(stage != nullptr ? place_of(*stage, path) : Place{},
                       printable(message) + ", in " + where +
                           (arms.size() == session_.recipe.arms.size() ? "" : " (arm " + join(arms, ", ") + ")"));
  }
  void add_size(const std::string& name, const std::string& arm, const std::string& message) {
    const RecipeStage* stage = session_.recipe.arm(arm)->stage(name);
    diagnostics_.error(stage->size->place, printable(message));
  }
  std::string text() const { return diagnostics_.text(); }

 private:
  const Session& session_;
  Sources sources_;
  Diagnostics ignored_, diagnostics_;
};

}  // namespace

std::string unsolvable_text(const Session& session, const PlanFacts& facts) {
  StageDiagnostics diagnostics(session);
  for (const auto& [key, why] : facts.unsolvable_sizes) diagnostics.add_size(key.stage, key.arm, why);
  for (const auto& [key, why] : facts.unsolvable) diagnostics.add(key.stage, {key.arm}, "budget", why);
  return diagnostics.text();
}

std::string problems_text(const Session& session, const std::vector<StageProblem>& problems) {
  StageDiagnostics diagnostics(session);
  for (const auto& problem : problems) diagnostics.add(problem.stage->name, problem.stage->arms, problem.path, problem.message);
  return diagnostics.text();
}

}  // namespace moiety::host
