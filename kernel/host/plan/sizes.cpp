#include "kernel/host/plan/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "kernel/base/text.h"

namespace moiety::host {
namespace {

/// Budgets that are not solved have so many steps while sizes are tried: parameters do not depend on them.
constexpr std::int64_t any_steps = 1000;
/// Larger ones are tried only when these are too small.
constexpr std::int64_t usual_sizes = 8192;

/// Whether the stage reads the other one, directly or not.
bool needs(const RecipeArm& arm, const RecipeStage& stage, const RecipeStage& other) {
  if (stage.name == other.name && stage.labels == other.labels) return true;
  const auto reads = [&](const std::string& name, const AxisLabels& labels) {
    const auto all = arm.instances(name);
    return std::any_of(all.begin(), all.end(), [&](const auto* one) { return one->labels == labels && needs(arm, *one, other); });
  };
  return std::any_of(stage.inputs.begin(), stage.inputs.end(), [&](const auto& input) {
    return std::any_of(input.second.begin(), input.second.end(), [&](const auto& one) { return reads(one.stage, one.labels); });
  });
}

Recipe with_arm(const Recipe& recipe, const RecipeArm& arm) {
  Recipe part = recipe;
  part.arms = {arm};
  return part;
}

class SizeSolver {
 public:
  SizeSolver(const Recipe& recipe, const Catalog& catalog, const PreparedData& prepared, const AskCosts& ask, PlanFacts& facts)
      : recipe_(recipe), catalog_(catalog), prepared_(prepared), ask_(ask), facts_(facts) {}

  Status solve(const RecipeArm& arm, const RecipeStage& stage) {
    const RecipeArm& other = *recipe_.arm(stage.size->of);
    const auto* measured = measured_in_both(arm, stage, other);
    if (measured == nullptr) {
      facts_.unsolvable_sizes[{arm.name, stage.name, stage.labels}] =
          fmt::format("no measuring stage of arm `{}` that reads this model stands in arm `{}` too", arm.name, other.name);
      return {};
    }
    const auto wanted = parameters_of(other, *measured, *stage.size);
    if (!wanted) return pass(wanted);
    std::map<double, SolvedSize> known;
    for (const auto& [seed, parameters] : *wanted) {
      const SizeKey key{arm.name, stage.name, stage.labels, seed};
      if (facts_.sizes.count(key) != 0) continue;
      if (known.count(parameters) == 0) {
        const auto found = search(arm, stage, seed, *measured, parameters);
        if (!found) return pass(found);
        if (!*found) return {};
        known[parameters] = **found;
      }
      facts_.sizes[key] = known[parameters];
    }
    return {};
  }

 private:
  static const RecipeStage* measured_in_both(const RecipeArm& arm, const RecipeStage& stage, const RecipeArm& other) {
    const auto found = std::find_if(arm.stages.begin(), arm.stages.end(), [&](const RecipeStage& one) {
      const auto* there = other.stage(one.name);
      return one.verb->measures && there != nullptr && there->verb->measures && one.input("from") != nullptr &&
             needs(arm, one, stage);
    });
    return found == arm.stages.end() ? nullptr : &*found;
  }

  Plan plan_of(const RecipeArm& arm, std::int64_t size) {
    PlanFacts tried = facts_;
    tried.trial_steps = any_steps;
    tried.trial_size = size;
    const auto [known, is_new] = alone_.emplace(arm.name, Recipe{});
    if (is_new) known->second = with_arm(recipe_, arm);
    return build_plan(known->second, catalog_, prepared_, tried);
  }

  /// Adds the stages of the run that are asked about to a plan.
  static void add_stages(const Plan& from, const std::string& arm, int seed, Plan& all) {
    for (const auto& one : from.run(arm, seed)->stages) {
      const auto* stage = from.stage(one.id);
      if (!stage->verb->measures && all.stage(one.id) == nullptr) all.stages.push_back(*stage);
    }
  }

  Result<std::map<std::string, BudgetCost>> costs_of(const Plan& all) const {
    std::vector<const PlannedStage*> stages;
    for (const auto& stage : all.stages) stages.push_back(&stage);
    return ask_(all, stages);
  }

  /// Of the models that the measuring stage reads in this run: in the mean over its labels that agree. Nothing: not known yet.
  static std::optional<double> read_by(const Plan& plan, const std::string& arm, int seed, const RecipeStage& measured,
                                       bool active, const std::map<std::string, BudgetCost>& costs) {
    double sum = 0;
    int places = 0;
    for (const auto& one : plan.run(arm, seed)->stages) {
      if (one.name != measured.name || !agree(one.labels, measured.labels)) continue;
      for (const auto& input : plan.stage(one.id)->inputs) {
        if (input.name != "from") continue;
        const auto cost = costs.find(input.stage_id);
        const double parameters = cost == costs.end() || cost->second.estimate ? 0
                                  : active                                     ? cost->second.active_parameters
                                                                               : cost->second.total_parameters;
        if (parameters <= 0) return std::nullopt;
        sum += parameters;
      }
      ++places;
    }
    return places == 0 ? std::nullopt : std::optional<double>(sum / places);
  }

  /// By seed; without the runs of which it is not known yet.
  Result<std::map<int, double>> parameters_of(const RecipeArm& arm, const RecipeStage& measured, const ModelSize& size) {
    std::map<int, double> found;
    const Plan plan = plan_of(arm, 0);
    Plan all = plan;
    all.stages.clear();
    std::vector<int> seeds;
    for (int seed = 1; seed <= recipe_.seeds; ++seed) {
      if (plan.run(arm.name, seed)->waits) continue;
      seeds.push_back(seed);
      add_stages(plan, arm.name, seed, all);
    }
    if (seeds.empty()) return found;
    const auto costs = costs_of(all);
    if (!costs) return pass(costs);
    for (const int seed : seeds) {
      if (const auto parameters = read_by(plan, arm.name, seed, measured, size.active, *costs)) found[seed] = *parameters;
    }
    return found;
  }

  /// size → parameters, of those among `sizes` that the worker takes.
  Result<std::map<std::int64_t, double>> tries(const RecipeArm& arm, int seed, const RecipeStage& measured, bool active,
                                               const std::vector<std::int64_t>& sizes) {
    std::map<std::int64_t, Plan> plans;
    Plan all;
    for (const auto size : sizes) {
      Plan plan = plan_of(arm, size);
      if (all.stages.empty()) {
        all = plan;
        all.stages.clear();
      }
      add_stages(plan, arm.name, seed, all);
      plans.emplace(size, std::move(plan));
    }
    const auto costs = costs_of(all);
    if (!costs) return pass(costs);
    std::map<std::int64_t, double> found;
    for (const auto& [size, plan] : plans) {
      const auto parameters = read_by(plan, arm.name, seed, measured, active, *costs);
      if (parameters) found[size] = *parameters;
    }
    return found;
  }

  /// The outer sizes: powers of two, and three times these, which most models take.
  static std::vector<std::int64_t> spread(std::int64_t low, std::int64_t high) {
    std::set<std::int64_t> sizes;
    for (std::int64_t power = 1; power <= high; power *= 2) {
      for (const auto size : {power, 3 * power}) {
        if (size >= low && size <= high) sizes.insert(size);
      }
    }
    sizes.insert(low);
    return {sizes.begin(), sizes.end()};
  }

  /// Multiples of a power of two between the two, at most about 32 of them.
  static std::vector<std::int64_t> between(std::int64_t low, std::int64_t high, std::int64_t step) {
    std::vector<std::int64_t> sizes;
    for (std::int64_t size = (low / step + 1) * step; size < high; size += step) sizes.push_back(size);
    return sizes;
  }

  Result<std::optional<SolvedSize>> search(const RecipeArm& arm, const RecipeStage& stage, int seed, const RecipeStage& measured,
                                           double wanted) {
    const ModelSize& size = *stage.size;
    std::map<std::int64_t, double> known;
    const auto take = [&](const std::vector<std::int64_t>& sizes) -> Status {
      if (sizes.empty()) return {};
      const auto found = tries(arm, seed, measured, size.active, sizes);
      if (!found) return pass(found);
      known.insert(found->begin(), found->end());
      return {};
    };
    const auto above = [&] {
      return std::find_if(known.begin(), known.end(), [&](const auto& one) { return one.second >= wanted; });
    };
    if (auto status = take(spread(size.low, std::min(size.high, usual_sizes))); !status) return pass(status);
    if (above() == known.end() && size.high > usual_sizes) {
      if (auto status = take(spread(usual_sizes, size.high)); !status) return pass(status);
    }
    const auto high = above();
    if (known.empty() || high == known.end() || (high == known.begin() && high->second > wanted)) {
      facts_.unsolvable_sizes[{arm.name, stage.name, stage.labels}] = unsolvable(arm, size, known, wanted);
      return std::optional<SolvedSize>();
    }
    // Down to whole numbers; where some are refused, as far as others are taken.
    std::int64_t step = high->first;
    while (step > 1) {
      const auto top = above();
      const std::int64_t upper = top->first, lower = top == known.begin() ? upper : std::prev(top)->first;
      if (upper - lower <= 1) break;
      std::int64_t next = 1;
      while (next * 32 < upper - lower) next *= 2;
      step = std::min(step / 2, next);
      if (auto status = take(between(lower, upper, step)); !status) return pass(status);
    }
    const auto nearest = std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
      return std::abs(a.second - wanted) < std::abs(b.second - wanted);
    });
    return std::optional<SolvedSize>({nearest->first, nearest->second, wanted});
  }

  static std::string unsolvable(const RecipeArm& arm, const ModelSize& size, const std::map<std::int64_t, double>& known,
                                double wanted) {
    const char* what = size.active ? "active" : "total";
    if (known.empty())
      return fmt::format("no `{}` that was tried makes a model of arm `{}` whose parameters are known before it runs",
                         size.parameter, arm.name);
    const auto& end = known.begin()->second > wanted ? *known.begin() : *known.rbegin();
    return fmt::format("with `{}` = {} arm `{}` has {} {} parameters, arm `{}` {}: no size makes them equal", size.parameter,
                       end.first, arm.name, number(end.second), what, size.of, number(wanted));
  }

  const Recipe& recipe_;
  const Catalog& catalog_;
  const PreparedData& prepared_;
  const AskCosts& ask_;
  PlanFacts& facts_;
  std::map<std::string, Recipe> alone_;  ///< by arm: the recipe with that one
};

bool is_open(const Recipe& recipe, const RecipeArm& arm, const RecipeStage& stage, const PlanFacts& facts) {
  if (!stage.size || facts.unsolvable_sizes.count({arm.name, stage.name, stage.labels}) != 0) return false;
  for (int seed = 1; seed <= recipe.seeds; ++seed) {
    if (facts.sizes.count({arm.name, stage.name, stage.labels, seed}) == 0) return true;
  }
  return false;
}

}  // namespace

Status solve_sizes(const Recipe& recipe, const Catalog& catalog, const PreparedData& prepared, const AskCosts& ask,
                   PlanFacts& facts) {
  // An arm may follow one that follows another: so often as something is found.
  SizeSolver solver(recipe, catalog, prepared, ask, facts);
  for (std::size_t before = 0;; before = facts.sizes.size()) {
    for (const auto& arm : recipe.arms) {
      for (const auto& stage : arm.stages) {
        if (!is_open(recipe, arm, stage, facts)) continue;
        if (auto status = solver.solve(arm, stage); !status) return status;
      }
    }
    if (facts.sizes.size() == before) return {};
  }
}

std::vector<std::string> sizes_text(const Recipe& recipe, const PlanFacts& facts) {
  std::vector<std::string> lines;
  for (const auto& [key, solved] : facts.sizes) {
    const RecipeArm* arm = recipe.arm(key.arm);
    const RecipeStage* stage = arm != nullptr ? arm->stage(key.stage) : nullptr;
    if (stage == nullptr || !stage->size) continue;
    const auto line = fmt::format("{} = {} in stage.{} (arm {}): {} {} parameters, arm {} has {} ({:+.2g} %)",
                                  stage->size->parameter, solved.value, instance_text(key.stage, key.labels), key.arm,
                                  number(solved.own), stage->size->active ? "active" : "total", stage->size->of,
                                  number(solved.wanted), 100 * (solved.own - solved.wanted) / solved.wanted);
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  }
  return lines;
}

}  // namespace moiety::host
