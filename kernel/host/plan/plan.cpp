#include "kernel/host/plan/plan.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>

#include "kernel/host/plan/identity.h"
#include "kernel/host/recipe/groups.h"
#include "kernel/host/recipe/stages.h"

namespace moiety::host {

bool Plan::has_choices() const {
  return std::any_of(axes.all().begin(), axes.all().end(), [](const Axis& axis) { return axis.choice.has_value(); });
}

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

bool continues(const nlohmann::json& config) {
  const auto found = config.find("continues");
  return found != config.end() && *found == true;
}

class Planner {
 public:
  Planner(const Recipe& recipe, const Catalog& catalog, const PreparedData& prepared, const PlanFacts& facts)
      : recipe_(recipe), catalog_(catalog), prepared_(prepared), facts_(facts) {}

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
    plan_.axes = recipe_.axes;
    if (recipe_.needs_corpus) plan_.corpus = recipe_.corpus;
    plan_.tasks = recipe_.tasks;
    for (const auto& arm : recipe_.arms) {
      plan_.arms.push_back({arm.name, arm.patch.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)});
      const std::size_t first = plan_.runs.size();
      for (int seed = 1; seed <= recipe_.seeds; ++seed) plan_.runs.push_back(run(arm, seed));
      group(first);
    }
    keep();
    return std::move(plan_);
  }

 private:
  /// Instance → identity, in one run.
  using Instance = std::pair<std::string, AxisLabels>;
  using Ids = std::map<Instance, std::string>;

  PlannedRun run(const RecipeArm& arm, int seed) {
    PlannedRun result;
    result.arm = arm.name;
    result.seed = seed;
    Ids ids;
    std::map<Instance, Wait> waits;
    for (const auto& stage : arm.stages) {
      Wait wait = inherited(stage, waits);
      std::optional<RecipeStage> formed;
      if (!stage.results.empty() && wait.nothing()) formed = form(arm, stage, ids, wait);
      if (stage.size && wait.nothing()) formed = with_size(arm.name, seed, formed ? *formed : stage, wait);
      if (stage.has_open_budget() && wait.nothing()) formed = with_budget(arm.name, formed ? *formed : stage, wait);
      if (!wait.nothing()) {
        note(arm, stage, seed, wait);
        waits[{stage.name, stage.labels}] = std::move(wait);
        result.waits = true;
        continue;
      }
      const std::string id = place(formed ? *formed : stage, seed, ids, arm.name);
      for (const auto& read : stage.results) note_result(id, ids.at({read.stage, read.labels}));
      if (formed && !stage.results.empty()) {
        auto& recorded = plan_.stages[index_.at(id)].recorded;
        recorded = stage.config;
        if (formed->config.contains("budget")) recorded["budget"] = formed->config["budget"];
      }
      if (stage.size) {
        auto& recorded = plan_.stages[index_.at(id)].recorded_model;
        recorded = plan_.stages[index_.at(id)].model;
        recorded[stage.size->parameter] = stage.size->text;
      }
      ids[{stage.name, stage.labels}] = id;
      result.stages.push_back({stage.name, id, stage.labels});
    }
    return result;
  }

  struct Wait {
    std::vector<std::string> after;
    std::string problem;
    bool nothing() const { return after.empty() && problem.empty(); }
    void add(const std::string& stage) {
      if (std::find(after.begin(), after.end(), stage) == after.end()) after.push_back(stage);
    }
  };

  /// What the stages it reads wait for, and those whose results it takes.
  static Wait inherited(const RecipeStage& stage, const std::map<Instance, Wait>& waits) {
    Wait wait;
    const auto take = [&](const std::string& name, const AxisLabels& labels) {
      const auto found = waits.find({name, labels});
      if (found == waits.end()) return;
      for (const auto& after : found->second.after) wait.add(after);
      if (!found->second.problem.empty() && wait.problem.empty())
        wait.problem = "stage." + instance_text(name, labels) + " cannot be run";
    };
    for (const auto& [input, read] : stage.inputs) {
      for (const auto& one : read) take(one.stage, one.labels);
    }
    for (const auto& read : stage.results) take(read.stage, read.labels);
    return wait;
  }

  /// The stage with the values that its text waits for, or what it still waits for.
  std::optional<RecipeStage> form(const RecipeArm& arm, const RecipeStage& stage, const Ids& ids, Wait& wait) {
    ResultValues values;
    nlohmann::json key = {arm.name, stage.name, stage.labels};
    for (const auto& read : stage.results) {
      const std::string& id = ids.at({read.stage, read.labels});
      const nlohmann::json results = results_of(id);
      if (results.is_null()) {
        wait.add(read.stage);
        continue;
      }
      const auto found = results.find(read.result);
      if (found == results.end()) {
        wait.problem = "stage." + read.stage + " has run, but left no result `" + read.result + "`";
        continue;
      }
      // A list of one is that one: a key that takes a list takes a single value too.
      const auto& value = found->is_array() && found->size() == 1 ? found->front() : *found;
      values[{read.stage, read.result}] = Value::from_json(value, "result of stage." + read.stage);
      key.push_back({read.stage, read.result, value});
    }
    if (!wait.nothing()) return std::nullopt;
    const std::string text = key.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    auto known = formed_.find(text);
    if (known == formed_.end()) known = formed_.emplace(text, form_stage(recipe_, catalog_, arm, stage, values)).first;
    if (known->second) return *known->second;
    wait.problem = known->second.error().message;
    return std::nullopt;
  }

  /// The stage with the size of its model that makes its parameters those of another arm, or what it waits for.
  std::optional<RecipeStage> with_size(const std::string& arm, int seed, RecipeStage stage, Wait& wait) const {
    const auto solved = facts_.sizes.find({arm, stage.name, stage.labels, seed});
    const auto why = facts_.unsolvable_sizes.find({arm, stage.name, stage.labels});
    if (why != facts_.unsolvable_sizes.end() && solved == facts_.sizes.end()) {
      wait.problem = stage.size->parameter + ": " + why->second;
    } else if (solved == facts_.sizes.end() && facts_.trial_size == 0) {
      wait.add("the parameters of " + stage.size->of);
    } else {
      stage.model[stage.size->parameter] = solved != facts_.sizes.end() ? solved->second.value : facts_.trial_size;
      return stage;
    }
    return std::nullopt;
  }

  static std::string waited_for(const RecipeStage& stage) {
    const auto* of = stage.budget_of();
    return of != nullptr ? "the total of " + *of : "what a step costs";
  }

  /// The stage with the steps that make its arm's total equal to that of another, or what it waits for.
  std::optional<RecipeStage> with_budget(const std::string& arm, RecipeStage stage, Wait& wait) const {
    const BudgetKey key{arm, stage.name, stage.labels};
    const auto solved = facts_.steps.find(key);
    if (const auto why = facts_.unsolvable.find(key); why != facts_.unsolvable.end()) {
      wait.problem = "budget: " + why->second;
    } else if (solved == facts_.steps.end() && facts_.trial_steps == 0) {
      wait.add(waited_for(stage));
    } else {
      stage.config["budget"] = {{"amount", solved != facts_.steps.end() ? solved->second : facts_.trial_steps},
                                {"unit", "steps"}};
      return stage;
    }
    return std::nullopt;
  }

  nlohmann::json results_of(const std::string& id) {
    const auto known = results_.find(id);
    if (known != results_.end()) return known->second;
    return results_[id] = facts_.results(id);
  }

  void note(const RecipeArm& arm, const RecipeStage& stage, int seed, const Wait& wait) {
    auto found = std::find_if(plan_.waiting.begin(), plan_.waiting.end(), [&](const WaitingStage& one) {
      return one.arm == arm.name && one.name == stage.name && one.labels == stage.labels && one.problem == wait.problem;
    });
    if (found == plan_.waiting.end()) {
      WaitingStage waiting;
      waiting.name = stage.name;
      waiting.arm = arm.name;
      waiting.labels = stage.labels;
      waiting.verb = stage.verb;
      waiting.after = wait.after;
      waiting.problem = wait.problem;
      collect_waiting(stage.text, "", waiting.values);
      if (stage.has_open_budget()) waiting.values.emplace_back("budget", waited_for(stage));
      if (stage.size) waiting.values.emplace_back("model." + stage.size->parameter, "the parameters of " + stage.size->of);
      found = plan_.waiting.insert(plan_.waiting.end(), std::move(waiting));
    }
    for (const auto& after : wait.after) {
      if (std::find(found->after.begin(), found->after.end(), after) == found->after.end()) found->after.push_back(after);
    }
    found->seeds.push_back(seed);
  }

  /// Paths of the values that wait, and the stage whose result each is.
  static void collect_waiting(const Value& value, const std::string& path,
                              std::vector<std::pair<std::string, std::string>>& found) {
    if (is_waiting(value)) {
      const auto begin = value.text.find("${") + 2;
      found.emplace_back(path, value.text.substr(begin, value.text.find_first_of(".}", begin) - begin));
    }
    for (const auto& item : value.items) collect_waiting(item, path, found);
    for (const auto& [key, member] : value.members) collect_waiting(member.value, path.empty() ? key : path + "." + key, found);
  }

  void note_result(const std::string& id, const std::string& source) {
    auto& list = plan_.stages[index_.at(id)].results_of;
    if (std::find(list.begin(), list.end(), source) == list.end()) list.push_back(source);
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
      for (const auto& one : read) planned.inputs.push_back({input, ids.at({one.stage, one.labels}), one.snapshot});
    }
    for (const auto& used : stage.components) planned.components.push_back({used.slot, used.component});
    if (stage.reads_corpus()) {
      planned.fraction = recipe_.fraction;
      planned.groups = mentioned_groups(recipe_.groups, stage.config);
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

  /// What a stage must leave for its readers beside its model. Each stage stands before its readers.
  void keep() {
    for (auto reader = plan_.stages.rbegin(); reader != plan_.stages.rend(); ++reader) {
      const bool goes_on = continues(reader->config) || (reader->keep_optimizer && !reader->verb->trains());
      for (const auto& input : reader->inputs) {
        PlannedStage& read = plan_.stages[index_.at(input.stage_id)];
        // A stage that only changes a model hands on what the one before it left.
        if (goes_on && input.name == "from") read.keep_optimizer = true;
        const auto at = std::lower_bound(read.snapshots.begin(), read.snapshots.end(), input.snapshot);
        if (input.snapshot.empty() || (at != read.snapshots.end() && *at == input.snapshot)) continue;
        read.snapshots.insert(at, input.snapshot);
      }
    }
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
  const PlanFacts& facts_;
  Plan plan_;
  std::map<std::string, nlohmann::json> results_;
  std::map<std::string, Result<RecipeStage>> formed_;
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace

Plan build_plan(const Recipe& recipe, const Catalog& catalog, const PreparedData& prepared, const PlanFacts& facts) {
  return Planner(recipe, catalog, prepared, facts).build();
}

}  // namespace moiety::host
