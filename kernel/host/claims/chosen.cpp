#include "kernel/host/claims/chosen.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "kernel/base/text.h"
#include "kernel/host/claims/evaluate.h"
#include "kernel/host/recipe/choices.h"

namespace moiety::host {
namespace {

/// The labels of axes at which a choice is made, and what was chosen there.
struct Made {
  AxisLabels at, labels;  ///< labels: of the choices that go by the same
  double value = 0;
  std::string problem;  ///< why nothing could be chosen
};

AxisLabels shared(const AxisLabels& labels, const AxisLabels& with) {
  AxisLabels result;
  for (const auto& [axis, label] : labels) {
    if (with.count(axis) != 0) result[axis] = label;
  }
  return result;
}

/// The plan with the stages that `is_kept`, without the labels of choices.
template <typename Kept>
Plan reported(const Plan& plan, const Kept& is_kept) {
  Plan result = plan;
  for (auto& run : result.runs) {
    std::vector<RunStage> kept;
    for (auto& stage : run.stages) {
      const auto labels = split_labels(stage.labels, plan.axes);
      if (!is_kept(run, stage, labels)) continue;
      stage.labels = labels.axes;
      kept.push_back(std::move(stage));
    }
    run.stages = std::move(kept);
  }
  return result;
}

class Chooser {
 public:
  Chooser(const Plan& plan, const Measured& measured) : plan_(plan), measured_(measured), evaluator_(plan, measured) {}

  Choices run() {
    Choices choices;
    choices.reported = reported(plan_, [&](PlannedRun& run, const RunStage& stage, const SplitLabels& labels) {
      bool chosen = true, known = true;
      for (const auto& [choice, label] : labels.choices) {
        const Made& made = made_for(run.arm, choice, labels.axes);
        known = known && made.problem.empty();
        if (!made.problem.empty()) run.unchosen = fmt::format("choose.{}: {}", choice, made.problem);
        const auto best = made.labels.find(choice);
        chosen = chosen && best != made.labels.end() && best->second == label;
      }
      if (known && !labels.choices.empty() && measured_.run_id)
        choices.trials.push_back({measured_.run_id(run.arm, run.seed), stage.name, labels.axes, labels.choices, chosen});
      return chosen;
    });
    for (const auto& [key, made] : made_) {
      const auto& [arm, rule, at] = key;
      for (const auto& axis : plan_.axes.all()) {
        if (!axis.choice || axis.choice->text != rule) continue;
        const auto label = made.labels.find(axis.name);
        if (label == made.labels.end() && made.problem.empty()) continue;
        choices.made.push_back({arm, made.at, axis.name, label == made.labels.end() ? "" : label->second, rule,
                                label == made.labels.end() ? std::nullopt : std::optional<double>(made.value), made.problem});
      }
    }
    return choices;
  }

 private:
  /// Arm, text of the rule, labels of axes.
  using Key = std::tuple<std::string, std::string, AxisLabels>;

  /// Where the stage that a choice goes by stands in a run of the arm, at these labels of axes.
  std::vector<const RunStage*> places(const std::string& arm, const ChoiceRule& rule, const AxisLabels& at) const {
    std::vector<const RunStage*> found;
    for (int seed = 1; seed <= plan_.seeds && found.empty(); ++seed) {
      const PlannedRun* run = plan_.run(arm, seed);
      if (run == nullptr) continue;
      for (const auto& stage : run->stages) {
        if (stage.name == rule.stage && agree(split_labels(stage.labels, plan_.axes).axes, at)) found.push_back(&stage);
      }
    }
    return found;
  }

  const Made& made_for(const std::string& arm, const std::string& choice, const AxisLabels& reported_at) {
    const ChoiceRule& rule = *plan_.axes.find(choice)->choice;
    const auto [asked, is_new] = asked_.emplace(Key{arm, rule.text, reported_at}, nullptr);
    if (!is_new) return *asked->second;
    const auto trials = places(arm, rule, reported_at);
    const AxisLabels at = trials.empty() ? AxisLabels{} : shared(reported_at, trials.front()->labels);
    auto known = made_.find({arm, rule.text, at});
    if (known == made_.end()) known = made_.emplace(Key{arm, rule.text, at}, make(arm, rule, at, trials)).first;
    asked->second = &known->second;
    return known->second;
  }

  Made make(const std::string& arm, const ChoiceRule& rule, const AxisLabels& at, const std::vector<const RunStage*>& trials) {
    Made made{at, {}, 0, {}};
    std::vector<AxisLabels> candidates;  // in the order written
    for (const auto* place : trials) {
      const auto own = trial_at(arm, *place, rule, made.problem);
      if (own && std::find(candidates.begin(), candidates.end(), *own) == candidates.end()) candidates.push_back(*own);
    }
    if (!made.problem.empty()) return made;
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](const AxisLabels& a, const AxisLabels& b) { return written_order(a) < written_order(b); });
    bool diverged = false;
    for (const auto& candidate : candidates) {
      const auto value = mean_of(arm, rule, at, candidate, made.problem, diverged);
      if (!made.problem.empty()) {
        made.labels.clear();
        return made;
      }
      if (!value) continue;
      if (!made.labels.empty() && (rule.highest ? *value <= made.value : *value >= made.value)) continue;
      made.labels = candidate;
      made.value = *value;
    }
    if (made.labels.empty())
      made.problem = diverged ? "every trial diverged" : fmt::format("no trial of stage.{} has run", rule.stage);
    return made;
  }

  std::vector<std::size_t> written_order(const AxisLabels& labels) const {
    std::vector<std::size_t> order;
    for (const auto& [choice, label] : labels) {
      const auto all = plan_.axes.find(choice)->labels();
      order.push_back(static_cast<std::size_t>(std::find(all.begin(), all.end(), label) - all.begin()));
    }
    return order;
  }

  /// Over the seeds and the axes of the stage beside these; nothing when the trial diverged.
  std::optional<double> mean_of(const std::string& arm, const ChoiceRule& rule, const AxisLabels& at, const AxisLabels& trial,
                                std::string& problem, bool& diverged) {
    double sum = 0;
    int count = 0;
    for (int seed = 1; seed <= plan_.seeds; ++seed) {
      const PlannedRun* run = plan_.run(arm, seed);
      if (run == nullptr) continue;
      for (const auto& stage : run->stages) {
        if (stage.name != rule.stage || !agree(at, stage.labels) || trial_at(arm, stage, rule, problem) != trial) continue;
        if (evaluator_.diverged(*run, stage)) {
          diverged = true;
          return std::nullopt;
        }
        const Reading reading = evaluator_.mean(*run, stage, rule.metric);
        if (!reading.problem.empty()) {
          problem = reading.problem;
          return std::nullopt;
        }
        sum += reading.value;
        ++count;
      }
    }
    return count == 0 ? std::nullopt : std::optional<double>(sum / count);
  }

  /// The labels of the choices that go by this rule where the stage stands; nothing when it does not stand at what was chosen
  /// before, for those that go by something else.
  std::optional<AxisLabels> trial_at(const std::string& arm, const RunStage& stage, const ChoiceRule& rule,
                                     std::string& problem) {
    const auto labels = split_labels(stage.labels, plan_.axes);
    AxisLabels own;
    bool chosen = true;
    for (const auto& [choice, label] : labels.choices) {
      if (plan_.axes.find(choice)->choice->text == rule.text) {
        own[choice] = label;
        continue;
      }
      const Made& before = made_for(arm, choice, labels.axes);
      if (!before.problem.empty()) problem = before.problem;
      const auto best = before.labels.find(choice);
      chosen = chosen && best != before.labels.end() && best->second == label;
    }
    return chosen ? std::optional<AxisLabels>(own) : std::nullopt;
  }

  const Plan& plan_;
  const Measured& measured_;
  Evaluator evaluator_;
  std::map<Key, Made> made_;
  std::map<Key, const Made*> asked_;  ///< the same by the labels that were asked for
};

}  // namespace

Choices choose(const Plan& plan, const Measured& measured) {
  if (!plan.has_choices()) return {{}, {}, plan};
  return Chooser(plan, measured).run();
}

std::optional<Plan> reported_before(const Plan& plan, const CountsOf& counts) {
  if (!plan.has_choices()) return plan;
  using Where = std::tuple<std::string, int, std::string, AxisLabels>;
  std::map<Where, StageCounts> known;
  bool same = true;
  Plan first = reported(plan, [&](const PlannedRun& run, const RunStage& stage, const SplitLabels& labels) {
    StageCounts own = counts ? counts(stage.id) : StageCounts{};
    const auto [place, is_new] = known.emplace(Where{run.arm, run.seed, stage.name, labels.axes}, own);
    same = same && (is_new || place->second == own);
    return is_new;
  });
  return same ? std::optional<Plan>(std::move(first)) : std::nullopt;
}

}  // namespace moiety::host
