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

class Chooser {
 public:
  Chooser(const Plan& plan, const Measured& measured) : plan_(plan), measured_(measured), evaluator_(plan, measured) {}

  Choices run() {
    Choices choices;
    choices.reported = plan_;
    for (auto& run : choices.reported.runs) {
      std::vector<RunStage> kept;
      for (auto& stage : run.stages) {
        const auto labels = split_labels(stage.labels, plan_.axes);
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
        if (!chosen) continue;
        stage.labels = labels.axes;
        kept.push_back(std::move(stage));
      }
      run.stages = std::move(kept);
    }
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
    const auto trials = places(arm, rule, reported_at);
    const AxisLabels at = trials.empty() ? AxisLabels{} : shared(reported_at, trials.front()->labels);
    const auto [known, is_new] = made_.emplace(Key{arm, rule.text, at}, Made{at, {}, 0, {}});
    if (is_new) known->second = make(arm, rule, at, trials);
    return known->second;
  }

  Made make(const std::string& arm, const ChoiceRule& rule, const AxisLabels& at, const std::vector<const RunStage*>& trials) {
    Made made{at, {}, 0, {}};
    std::vector<AxisLabels> candidates;  // in the order written
    for (const auto* trial : trials) {
      const auto labels = split_labels(trial->labels, plan_.axes);
      AxisLabels own;
      bool possible = true;
      for (const auto& [choice, label] : labels.choices) {
        if (plan_.axes.find(choice)->choice->text == rule.text) {
          own[choice] = label;
          continue;
        }
        const Made& before = made_for(arm, choice, labels.axes);
        if (!before.problem.empty()) made.problem = before.problem;
        const auto best = before.labels.find(choice);
        possible = possible && best != before.labels.end() && best->second == label;
      }
      if (possible && std::find(candidates.begin(), candidates.end(), own) == candidates.end()) candidates.push_back(own);
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
      for (const auto& stage : run != nullptr ? run->stages : std::vector<RunStage>{}) {
        if (stage.name != rule.stage || !agree(at, stage.labels) || !chosen_before(arm, stage, trial, rule)) continue;
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

  /// Whether the stage stands at this trial, and at what was chosen before for the choices that go by something else.
  bool chosen_before(const std::string& arm, const RunStage& stage, const AxisLabels& trial, const ChoiceRule& rule) {
    const auto labels = split_labels(stage.labels, plan_.axes);
    return std::all_of(labels.choices.begin(), labels.choices.end(), [&](const auto& one) {
      if (plan_.axes.find(one.first)->choice->text == rule.text) return trial.at(one.first) == one.second;
      const Made& before = made_for(arm, one.first, labels.axes);
      const auto best = before.labels.find(one.first);
      return best != before.labels.end() && best->second == one.second;
    });
  }

  const Plan& plan_;
  const Measured& measured_;
  Evaluator evaluator_;
  std::map<Key, Made> made_;
};

/// The plan with what stands at these labels of choices.
Plan at_trial(const Plan& plan, const AxisLabels& trial) {
  Plan result = plan;
  for (auto& run : result.runs) {
    std::vector<RunStage> kept;
    for (auto& stage : run.stages) {
      const auto labels = split_labels(stage.labels, plan.axes);
      if (!agree(labels.choices, trial)) continue;
      stage.labels = labels.axes;
      kept.push_back(std::move(stage));
    }
    run.stages = std::move(kept);
  }
  return result;
}

}  // namespace

Choices choose(const Plan& plan, const Measured& measured) {
  if (!plan.has_choices()) return {{}, {}, plan};
  return Chooser(plan, measured).run();
}

std::vector<Plan> reported_trials(const Plan& plan, std::size_t most) {
  if (!plan.has_choices()) return {plan};
  std::vector<AxisLabels> trials = {{}};
  for (const auto& axis : plan.axes.all()) {
    if (!axis.choice) continue;
    std::vector<AxisLabels> longer;
    for (const auto& before : trials) {
      for (const auto& label : axis.labels()) {
        if (longer.size() >= most) break;
        longer.push_back(before);
        longer.back()[axis.name] = label;
      }
    }
    trials = std::move(longer);
  }
  std::vector<Plan> plans;
  for (const auto& trial : trials) plans.push_back(at_trial(plan, trial));
  return plans;
}

}  // namespace moiety::host
