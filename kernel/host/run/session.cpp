#include "kernel/host/run/session.h"

#include <filesystem>
#include <utility>

#include "kernel/base/text.h"
#include "kernel/host/discovery/locate.h"
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

std::string problems_text(const Session& session, const std::vector<StageProblem>& problems) {
  Sources sources;
  Diagnostics ignored(sources);
  // Read again for the lines to show: the recipe keeps places, not text.
  load_document(session.request.path, session.request.overrides, sources, ignored);
  Diagnostics diagnostics(sources);
  for (const auto& problem : problems) {
    const RecipeStage* stage = nullptr;
    for (const auto& arm : session.recipe.arms) {
      const auto& reached = problem.stage->arms;
      if (std::find(reached.begin(), reached.end(), arm.name) == reached.end()) continue;
      stage = arm.stage(problem.stage->name);
      if (stage != nullptr) break;
    }
    const std::string where = "stage." + problem.stage->name + (problem.path.empty() ? "" : "." + problem.path);
    const std::string arms =
        problem.stage->arms.size() == session.recipe.arms.size() ? "" : " (arm " + join(problem.stage->arms, ", ") + ")";
    diagnostics.error(stage != nullptr ? place_of(*stage, problem.path) : Place{},
                      printable(problem.message) + ", in " + where + arms);
  }
  return diagnostics.text();
}

}  // namespace moiety::host
