// The numbers behind `moiety compare`: per arm and metric a summary over seeds, and paired differences to the baseline arm.
#ifndef MOIETY_REGISTRY_COMPARISON_H_
#define MOIETY_REGISTRY_COMPARISON_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "registry/report.h"
#include "registry/report_common.h"
#include "registry/statistics.h"

namespace moiety::registry {

struct ArmResult {
  std::string arm;
  Summary summary;                     ///< over units (seeds, or groups of seeds that share a pinned stage)
  std::vector<std::int64_t> diverged;  ///< numbers of runs without a finite value because they diverged
  std::vector<std::int64_t> failed, unfinished;
  bool baseline = false;
  // Of the paired differences to the baseline arm; empty for the baseline itself.
  std::optional<Summary> difference;
  std::optional<Interval> interval;
  std::optional<double> p, p_holm, detectable;
  std::map<std::string, Summary> domains;  ///< for the wide table, when the metric has domains
};

struct MetricResult {
  std::string stage, metric, unit;
  Labels labels;  ///< without the domain
  int better = 0;
  std::vector<ArmResult> arms;
  std::vector<std::string> domains;
  bool all_equal = false;           ///< every run of every arm has the same value
  bool seed_moves_nothing = false;  ///< within each arm all seeds have the same value
};

struct Comparison {
  StudyInfo study;
  std::string baseline;
  bool asked_for_metrics = false;
  std::vector<MetricResult> metrics;
  std::vector<std::string> notes, warnings;
};

/// Refuses to average runs that differ in more than the seed, and reports a table that would be empty with the reason.
Result<Comparison> compare_arms(Database& database, const CompareOptions& options);

struct ArmRuns {
  std::string arm;
  std::vector<RunInfo> runs;
};

/// Error when the runs of an arm differ in more than the seed, saying in what.
Status check_same_config(Database& database, const std::vector<ArmRuns>& arms);
/// Lines on builds, threads and CPUs in which stages of one name differ between arms: then differences between arms may come from
/// that. Stages of different names are not compared: a pretraining may well have more threads than what follows it.
Result<std::vector<std::string>> environment_warnings(Database& database, std::int64_t study, const std::vector<ArmRuns>& arms);
/// "over 5 seeds of 1 pinned model (pretrained)", when all runs of the arms share pinned stages.
Result<std::vector<std::string>> pinned_notes(Database& database, std::int64_t study, const std::vector<ArmRuns>& arms);

}  // namespace moiety::registry

#endif  // MOIETY_REGISTRY_COMPARISON_H_
