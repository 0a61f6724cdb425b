// What stages and all that they need cost: counts, which are exact and known before a run, and costs that a run measures.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_COSTS_H_
#define MOIETY_KERNEL_HOST_CLAIMS_COSTS_H_

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernel/host/claims/expression.h"
#include "kernel/host/plan/plan.h"

namespace moiety::host {

/// Name of a cost (`cost_metrics()`) → what it is for one stage alone. What is not known is left out.
using StageCounts = std::map<std::string, double>;
/// By identity: from the dry pass before a run, from the stage's manifest after it. Empty when nothing is known.
using CountsOf = std::function<StageCounts(const std::string& stage_id)>;

/// A metric that every stage has without declaring it.
struct CostMetric {
  OutputDeclaration declaration;
  bool exact = false;   ///< a count: no seeds, no interval, `=` allowed
  bool summed = false;  ///< of a measuring stage: over all that its models needed; otherwise that of the models it reads
};
/// flops, tokens, total_parameters, active_parameters, trainable_parameters; cpu_seconds, step_seconds, peak_memory; diverged.
const std::vector<CostMetric>& cost_metrics();
const CostMetric* cost_metric(const std::string& name);

/// What an expression is in one seed: a number, or why there is none. `absent`: `skip` of the recipe leaves that combination out.
struct Reading {
  double value = 0;
  std::string problem;
  bool absent = false;
};

class PlanCosts {
 public:
  /// `plan` must outlive it; `state` (of a stage) is asked for `diverged` alone.
  PlanCosts(const Plan& plan, CountsOf counts, std::function<std::string(const std::string& stage_id)> state);

  /// Of a stage that trains, constructs or clusters its own; of a measuring stage see CostMetric::summed: a training of which
  /// only a point is read counts up to there. `times`: stages along these axes count so many times (those that one stage collects
  /// from n labels, each an n-th of it).
  Reading of(const std::string& name, const PlannedRun& run, const RunStage& stage, const std::map<std::string, double>& times);

 private:
  /// A stage that another one needs, and the points of its training that are read ("": its end).
  struct Need {
    std::string id;
    std::set<std::string> points;
  };
  std::vector<Need> counted(const std::string& name, const PlannedStage& stage);
  const std::vector<Need>& needed(const std::string& id);
  double share(const Need& need);
  std::optional<double> own(const std::string& name, const std::string& id);
  Reading diverged(const PlannedRun& run, const std::vector<Need>& needs) const;

  std::map<std::string, const PlannedStage*> stages_;
  CountsOf counts_;
  std::function<std::string(const std::string&)> state_;
  std::map<std::string, std::vector<Need>> needed_;
  std::map<std::string, StageCounts> known_;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_COSTS_H_
