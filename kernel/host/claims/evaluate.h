// The numbers behind a claim: expressions over what the runs measured, in one run seed and at one label of each loop.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_EVALUATE_H_
#define MOIETY_KERNEL_HOST_CLAIMS_EVALUATE_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernel/host/claims/costs.h"
#include "kernel/host/claims/judge.h"

namespace moiety::host {

class Evaluator {
 public:
  Evaluator(const Plan& plan, const Measured& measured)
      : plan_(plan), measured_(measured), costs_(plan, measured.counts, measured.state) {}

  Reading evaluate(const Expression& node, int seed, const AxisLabels& at);
  /// The labels of a loop in order; where only the data know them, those that the expressions' metrics have in some seed.
  std::vector<std::string> labels(const Loop& loop, const std::vector<const Expression*>& expressions, const AxisLabels& at);
  /// All combinations of the labels of these loops, beside `at`.
  std::vector<AxisLabels> cells(const std::vector<Loop>& loops, const std::vector<const Expression*>& expressions,
                                const AxisLabels& at);
  /// The mean of all that the stage recorded under this name.
  Reading mean(const PlannedRun& run, const RunStage& stage, const std::string& metric);
  /// Whether it, or something that it needs, diverged.
  bool diverged(const PlannedRun& run, const RunStage& stage);

 private:
  struct Values;
  Reading read(const PlannedRun& run, const RunStage& stage, Values& values,
               const std::function<bool(const registry::MetricRow&)>& wanted);
  Reading metric(const MetricTerm& term, int seed, const AxisLabels& at);
  Reading metric_at(const MetricTerm& term, int seed, const AxisLabels& at);
  Reading function(const Expression& node, int seed, const AxisLabels& at);
  Reading choice(const Expression& node, const std::vector<AxisLabels>& cells, int seed);
  Reading rank(const Expression& node, const std::vector<AxisLabels>& cells, int seed);
  void collect(const Expression& node, const std::string& axis, const AxisLabels& at, std::vector<std::string>& found);
  std::vector<const RunStage*> instances(const PlannedRun& run, const MetricTerm& term, const AxisLabels& at) const;
  const std::string& state(const std::string& id);
  const std::vector<registry::MetricRow>& rows(const std::string& id);
  std::string cause(const PlannedRun& run, const RunStage& wanted);

  const Plan& plan_;
  const Measured& measured_;
  PlanCosts costs_;
  std::map<std::string, std::string> states_;
  std::map<std::string, std::vector<registry::MetricRow>> rows_;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_EVALUATE_H_
