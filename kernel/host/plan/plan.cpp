#include "kernel/host/plan/plan.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>

#include "kernel/host/plan/identity.h"

namespace moiety::host {

const PlannedStage* Plan::stage(const std::string& id) const {
  const auto found = std::find_if(stages.begin(), stages.end(), [&](const PlannedStage& one) { return one.id == id; });
  return found == stages.end() ? nullptr : &*found;
}

const PlannedRun* Plan::run(const std::string& arm, int seed) const {
  const auto found =
      std::find_if(runs.begin(), runs.end(), [&](const PlannedRun& one) { return one.arm == arm && one.seed == seed; });
  return found == runs.end() ? nullptr : &*found;
}

namespace {

/// Whether the recipe fixes all seeds that the verb draws from, with fewer values than there are runs.
bool is_pinned(const RecipeStage& stage, int seeds) {
  if (stage.verb->seeds.empty()) return false;
  return std::all_of(stage.verb->seeds.begin(), stage.verb->seeds.end(), [&](const std::string& purpose) {
    const auto found = stage.seed.purposes.find(purpose);
    return found != stage.seed.purposes.end() && (found->second.size() == 1 || static_cast<int>(found->second.size()) < seeds);
  });
}

class Planner {
 public:
  Planner(const Recipe& recipe, const Catalog& catalog, const PreparedData& prepared)
      : recipe_(recipe), catalog_(catalog), prepared_(prepared) {}

  Plan build() {
    plan_.recipe_name = recipe_.name;
    plan_.about = recipe_.about;
    plan_.baseline = recipe_.baseline;
    plan_.recipe_path = recipe_.path;
    plan_.raw_text = recipe_.raw_text;
    plan_.resolved_text = recipe_.resolved_text;
    plan_.recipe_hash = recipe_.hash;
    plan_.seeds = recipe_.seeds;
    plan_.confidence = recipe_.confidence;
    plan_.axes = recipe_.axes.names();
    if (recipe_.needs_corpus) plan_.corpus = recipe_.corpus;
    plan_.tasks = recipe_.tasks;
    for (const auto& arm : recipe_.arms) {
      plan_.arms.push_back({arm.name, arm.patch.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)});
      const std::size_t first = plan_.runs.size();
      for (int seed = 1; seed <= recipe_.seeds; ++seed) plan_.runs.push_back(run(arm, seed));
      group(first);
    }
    return std::move(plan_);
  }

 private:
  /// Instance → identity, in one run.
  using Ids = std::map<std::pair<std::string, AxisLabels>, std::string>;

  PlannedRun run(const RecipeArm& arm, int seed) {
    PlannedRun result;
    result.arm = arm.name;
    result.seed = seed;
    Ids ids;
    for (const auto& stage : arm.stages) {
      const std::string id = place(stage, seed, ids, arm.name);
      ids[{stage.name, stage.labels}] = id;
      result.stages.push_back({stage.name, id, stage.labels});
    }
    return result;
  }

  std::string hash_of_task(const std::string& task) const {
    auto found = prepared_.task_hashes.find(task);
    if (found == prepared_.task_hashes.end()) found = prepared_.task_hashes.find(task.substr(0, task.find('@')));
    return found == prepared_.task_hashes.end() ? "" : found->second;
  }

  /// Adds the stage unless an equal one is there.
  std::string place(const RecipeStage& stage, int seed, const Ids& ids, const std::string& arm) {
    PlannedStage planned;
    planned.name = stage.name;
    planned.labels = stage.labels;
    planned.verb = stage.verb;
    planned.config = stage.config;
    planned.model = stage.model;
    for (const auto& purpose : seed_purposes()) {
      const auto& drawn = stage.verb->seeds;
      planned.seeds[purpose] = std::find(drawn.begin(), drawn.end(), purpose) == drawn.end() ? 0 : stage.seed.of(purpose, seed);
    }
    planned.pinned = is_pinned(stage, recipe_.seeds);
    for (const auto& [input, read] : stage.inputs) {
      for (const auto& one : read) planned.inputs.push_back({input, ids.at({one.stage, one.labels})});
    }
    for (const auto& used : stage.components) planned.components.push_back({used.slot, used.component});
    if (stage.verb->needs_corpus) {
      planned.corpus_hash = prepared_.corpus_hash;
      if (planned.corpus_hash.empty()) {
        planned.corpus_hash = "not prepared: " + recipe_.corpus.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        plan_.provisional = true;
      }
    }
    if (!stage.task.empty()) {
      planned.task = stage.task;
      planned.task_hash = hash_of_task(stage.task);
      if (planned.task_hash.empty()) {
        planned.task_hash = "not prepared: " + stage.task;
        plan_.provisional = true;
      }
    }
    planned.threads = stage.threads;
    planned.device = stage.device;
    planned.dtype = stage.dtype;
    planned.identity_text = identity_text(planned, catalog_);
    planned.id = identity_of(planned.identity_text);
    const auto [known, is_new] = index_.emplace(planned.id, plan_.stages.size());
    if (is_new) plan_.stages.push_back(std::move(planned));
    PlannedStage& kept = plan_.stages[known->second];
    if (kept.arms.empty() || kept.arms.back() != arm) kept.arms.push_back(arm);
    return kept.id;
  }

  /// Runs of one arm (from `first` on) that share a model with some but not all others of the arm are one unit. Sharing is
  /// transitive: with two lists of seeds, runs may be tied by one stage here and by another there.
  void group(std::size_t first) {
    const std::size_t count = plan_.runs.size() - first;
    std::map<std::string, std::vector<std::size_t>> users;
    for (std::size_t i = 0; i < count; ++i) {
      for (const auto& stage : plan_.runs[first + i].stages) {
        if (plan_.stages[index_.at(stage.id)].verb->leaves != "model") continue;
        // Two instances of a run may be one stage.
        auto& runs = users[stage.id];
        if (runs.empty() || runs.back() != i) runs.push_back(i);
      }
    }
    std::vector<std::size_t> leader(count);
    std::iota(leader.begin(), leader.end(), 0);
    const auto find = [&](std::size_t i) {
      while (leader[i] != i) i = leader[i];
      return i;
    };
    std::vector<bool> tied(count, false);
    for (const auto& [id, runs] : users) {
      if (runs.size() < 2 || runs.size() == count) continue;
      for (const std::size_t i : runs) {
        const std::size_t a = find(i), b = find(runs.front());
        leader[std::max(a, b)] = std::min(a, b);
        tied[i] = true;
      }
    }
    std::map<std::size_t, std::set<std::string>> names;
    for (const auto& [id, runs] : users) {
      if (runs.size() >= 2 && runs.size() < count) names[find(runs.front())].insert(id.substr(0, 12));
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (!tied[i]) continue;
      for (const auto& id : names[find(i)]) plan_.runs[first + i].group += (plan_.runs[first + i].group.empty() ? "" : "+") + id;
    }
  }

  const Recipe& recipe_;
  const Catalog& catalog_;
  const PreparedData& prepared_;
  Plan plan_;
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace

Plan build_plan(const Recipe& recipe, const Catalog& catalog, const PreparedData& prepared) {
  return Planner(recipe, catalog, prepared).build();
}

}  // namespace moiety::host
