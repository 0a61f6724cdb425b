#include "kernel/host/plan/budgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "kernel/base/text.h"
#include "kernel/host/recipe/quantities.h"

namespace moiety::host {
namespace {

using Instance = std::pair<std::string, AxisLabels>;

bool within(const AxisLabels& a, const AxisLabels& b) {
  return std::all_of(a.begin(), a.end(), [&](const auto& one) { return b.count(one.first) != 0; });
}

/// How much of the training of a stage is needed: all, or up to the last of its states that are read.
struct Part {
  double share = 0, tokens = 0;

  void add(const std::string& point) {
    std::string ignored;
    const auto percent = parse_percent(point);
    const auto budget = percent || point.empty() ? std::nullopt : parse_budget(point, ignored);
    if (budget)
      tokens = std::max(tokens, budget->amount);
    else
      share = std::max(share, percent.value_or(1));
  }
  double of(const BudgetCost& cost) const {
    return std::min(1.0, std::max(share, tokens == 0 ? 0 : cost.tokens > 0 ? tokens / cost.tokens : 1));
  }
};
/// What measuring stages of an arm need.
using Needed = std::map<Instance, Part>;

void need(const RecipeArm& arm, const RecipeStage& stage, const std::string& point, Needed& needed);

void need_read(const RecipeArm& arm, const std::string& name, const AxisLabels& labels, const std::string& point,
               Needed& needed) {
  for (const auto* read : arm.instances(name)) {
    if (read->labels == labels) need(arm, *read, point, needed);
  }
}

void need(const RecipeArm& arm, const RecipeStage& stage, const std::string& point, Needed& needed) {
  const auto [found, is_new] = needed.insert({{stage.name, stage.labels}, Part{}});
  found->second.add(point);
  if (!is_new) return;
  for (const auto& [input, read] : stage.inputs) {
    for (const auto& one : read) need_read(arm, one.stage, one.labels, one.snapshot, needed);
  }
  for (const auto& read : stage.results) need_read(arm, read.stage, read.labels, "", needed);
}

/// The costs of one try: all budgets that are not solved have the same number of steps.
class Trial {
 public:
  explicit Trial(Plan plan) : plan_(std::move(plan)) {}

  const Plan& plan() const { return plan_; }
  void set_costs(std::map<std::string, BudgetCost> costs) { costs_ = std::move(costs); }
  bool waits(const std::string& arm) const { return plan_.run(arm, 1)->waits; }

  /// Stages of the first run of these arms: costs are the same in every run.
  std::vector<const PlannedStage*> stages(const std::set<std::string>& arms) const {
    std::set<std::string> ids;
    for (const auto& arm : arms) {
      for (const auto& one : plan_.run(arm, 1)->stages) ids.insert(one.id);
    }
    std::vector<const PlannedStage*> found;
    for (const auto& stage : plan_.stages) {
      if (ids.count(stage.id) != 0) found.push_back(&stage);
    }
    return found;
  }

  /// Of one stage; nothing when it waits for others.
  std::optional<BudgetCost> cost(const RecipeArm& arm, const RecipeStage& stage) const {
    for (const auto& one : plan_.run(arm.name, 1)->stages) {
      const auto found = costs_.find(one.id);
      if (one.name == stage.name && one.labels == stage.labels && found != costs_.end()) return found->second;
    }
    return std::nullopt;
  }

  /// Whether the costs of some of these are known only when more has run.
  bool is_estimate(const RecipeArm& arm, const Needed& needed) const {
    const auto& stages = plan_.run(arm.name, 1)->stages;
    return std::any_of(stages.begin(), stages.end(), [&](const RunStage& one) {
      const auto cost = costs_.find(one.id);
      return needed.count({one.name, one.labels}) != 0 && cost != costs_.end() && cost->second.estimate;
    });
  }

  double total(const RecipeArm& arm, const Needed& needed, const std::string& unit) const {
    // Two instances of a run may be one stage: it is paid once.
    std::map<std::string, double> shares;
    for (const auto& one : plan_.run(arm.name, 1)->stages) {
      const auto found = needed.find({one.name, one.labels});
      const auto cost = costs_.find(one.id);
      if (found == needed.end() || cost == costs_.end() || plan_.stage(one.id)->verb->leaves == "none") continue;
      double& share = shares[one.id];
      share = std::max(share, found->second.of(cost->second));
    }
    double sum = 0;
    for (const auto& [id, share] : shares) sum += share * (unit == "flops" ? costs_.at(id).flops : costs_.at(id).tokens);
    return sum;
  }

 private:
  Plan plan_;
  std::map<std::string, BudgetCost> costs_;
};

constexpr std::int64_t kFewSteps = 1000, kManySteps = 2000;

class Solver {
 public:
  Solver(const Recipe& recipe, const Trial& few, const Trial& many, PlanFacts& facts)
      : recipe_(recipe), few_(few), many_(many), facts_(facts) {}

  void solve(const RecipeArm& arm, const RecipeStage& stage, const std::set<BudgetKey>& unsolved) {
    if (stage.budget_of() == nullptr) return solve_amount(arm, stage);
    const BudgetKey key{arm.name, stage.name, stage.labels};
    const RecipeArm& other = *recipe_.arm(*stage.budget_of());
    const auto unit = stage.config.at("budget").at("unit").get<std::string>();
    std::optional<std::int64_t> steps;
    for (const auto& measured : arm.stages) {
      if (!measured.verb->measures) continue;
      Needed own;
      need(arm, measured, "", own);
      if (own.count({stage.name, stage.labels}) == 0) continue;
      if (few_.is_estimate(arm, needed(arm, measured.labels)) || few_.is_estimate(other, needed(other, measured.labels))) return;
      const auto answer = at(arm, other, stage, measured.labels, unit, unsolved);
      if (!answer) {
        facts_.unsolvable[key] = answer.error();
        return;
      }
      if (steps && std::abs(static_cast<double>(*steps - *answer)) > 0.001 * static_cast<double>(*steps)) {
        facts_.unsolvable[key] =
            fmt::format("{} of {} would be {} steps for one measurement of arm `{}` and {} for another: stage.{} serves both",
                        unit, other.name, *steps, arm.name, *answer, stage.name);
        return;
      }
      if (!steps) steps = *answer;
    }
    if (steps) facts_.steps[key] = *steps;
  }

 private:
  /// "1e15 flops": of the stage alone.
  void solve_amount(const RecipeArm& arm, const RecipeStage& stage) {
    const auto few = few_.cost(arm, stage), many = many_.cost(arm, stage);
    if (!few || !many || few->estimate || many->estimate) return;
    const double step = (many->flops - few->flops) / static_cast<double>(kManySteps - kFewSteps);
    const double wanted = stage.config.at("budget").at("amount").get<double>();
    const double steps = step > 0 ? std::round((wanted - few->flops) / step) + static_cast<double>(kFewSteps) : 0;
    const BudgetKey key{arm.name, stage.name, stage.labels};
    if (steps >= 1 && steps < 9e15)
      facts_.steps[key] = static_cast<std::int64_t>(steps);
    else
      facts_.unsolvable[key] = fmt::format("a step costs {} flops, so {} are no number of steps", number(step), number(wanted));
  }

  /// All that the measuring stages of an arm need which stand at these labels.
  static Needed needed(const RecipeArm& arm, const AxisLabels& labels) {
    Needed result;
    for (const auto& stage : arm.stages) {
      if (stage.verb->measures && within(stage.labels, labels) && agree(stage.labels, labels)) need(arm, stage, "", result);
    }
    return result;
  }

  tl::expected<std::int64_t, std::string> at(const RecipeArm& arm, const RecipeArm& other, const RecipeStage& stage,
                                             const AxisLabels& labels, const std::string& unit,
                                             const std::set<BudgetKey>& unsolved) const {
    const auto own = needed(arm, labels), theirs = needed(other, labels);
    if (theirs.empty()) {
      return tl::make_unexpected(fmt::format("arm `{}` measures nothing at the labels of {}, so there is no total to reach",
                                             other.name, instance_text("arm " + arm.name, labels)));
    }
    for (const auto& key : unsolved) {
      const bool same = key.stage == stage.name && key.labels == stage.labels;
      if (key.arm == arm.name && !same && own.count({key.stage, key.labels}) != 0) {
        return tl::make_unexpected(
            fmt::format("stage.{} and stage.{} of arm `{}` are to make up one total", stage.name, key.stage, arm.name));
      }
    }
    const double wanted = few_.total(other, theirs, unit);
    const double few = few_.total(arm, own, unit), many = many_.total(arm, own, unit);
    const double step = (many - few) / static_cast<double>(kManySteps - kFewSteps);
    const double without = few - step * static_cast<double>(kFewSteps);
    const double steps = step > 0 ? std::round((wanted - without) / step) : 0;
    if (steps >= 1 && steps < 9e15) return static_cast<std::int64_t>(steps);
    return tl::make_unexpected(
        step > 0 ? fmt::format("arm `{}` needs {} {} before a step of stage.{}, arm `{}` {} in all: no number of steps makes "
                               "them equal",
                               arm.name, number(without), unit, stage.name, other.name, number(wanted))
                 : fmt::format("a step of stage.{} adds no {} to the {} of arm `{}`; arm `{}` has {}", stage.name, unit,
                               number(without), arm.name, other.name, number(wanted)));
  }

  const Recipe& recipe_;
  const Trial &few_, &many_;
  PlanFacts& facts_;
};

/// Budgets that nobody has solved yet.
std::set<BudgetKey> unsolved_of(const Recipe& recipe, const PlanFacts& facts) {
  std::set<BudgetKey> found;
  for (const auto& arm : recipe.arms) {
    for (const auto& stage : arm.stages) {
      const BudgetKey key{arm.name, stage.name, stage.labels};
      if (stage.has_open_budget() && facts.steps.count(key) == 0 && facts.unsolvable.count(key) == 0) found.insert(key);
    }
  }
  return found;
}

}  // namespace

Status solve_budgets(const Recipe& recipe, const Catalog& catalog, const PreparedData& prepared, const AskCosts& ask,
                     PlanFacts& facts) {
  for (;;) {
    const auto unsolved = unsolved_of(recipe, facts);
    if (unsolved.empty()) return {};
    const auto trial = [&](std::int64_t steps) {
      PlanFacts tried = facts;
      tried.trial_steps = steps;
      return Trial(build_plan(recipe, catalog, prepared, tried));
    };
    Trial few = trial(kFewSteps), many = trial(kManySteps);
    // Those that take the total of an arm of which all is known.
    std::set<std::string> open, arms;
    for (const auto& key : unsolved) open.insert(key.arm);
    std::vector<std::pair<const RecipeArm*, const RecipeStage*>> ready;
    for (const auto& arm : recipe.arms) {
      for (const auto& stage : arm.stages) {
        if (unsolved.count({arm.name, stage.name, stage.labels}) == 0) continue;
        if (stage.budget_of() == nullptr) {
          ready.emplace_back(&arm, &stage);
          arms.insert(arm.name);
          continue;
        }
        const auto& other = *stage.budget_of();
        if (open.count(other) != 0 || few.waits(other) || few.waits(arm.name)) continue;
        ready.emplace_back(&arm, &stage);
        arms.insert({arm.name, other});
      }
    }
    if (ready.empty()) return {};
    for (Trial* one : {&few, &many}) {
      auto costs = ask(one->plan(), one->stages(arms));
      if (!costs) return pass(costs);
      one->set_costs(std::move(*costs));
    }
    Solver solver(recipe, few, many, facts);
    for (const auto& [arm, stage] : ready) solver.solve(*arm, *stage, unsolved);
    if (unsolved_of(recipe, facts).size() == unsolved.size()) return {};
  }
}

}  // namespace moiety::host
