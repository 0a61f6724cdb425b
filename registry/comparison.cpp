#include "registry/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "kernel/base/text.h"

namespace moiety::registry {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

struct SeriesName {
  std::string stage, metric;
  Labels labels;
  bool operator<(const SeriesName& other) const {
    return std::tie(stage, metric, labels) < std::tie(other.stage, other.metric, other.labels);
  }
};

/// Values of one metric: by run, then by domain ("" for a metric without domains).
struct SeriesValues {
  std::string unit;
  int better = 0;
  int position = 0;  ///< of its stage in the runs
  std::map<std::int64_t, std::map<std::string, double>> by_run;
};

Result<std::vector<ArmRuns>> load_arms(Database& database, const StudyInfo& study, const std::vector<std::string>& wanted,
                                       std::string& baseline) {
  std::vector<ArmRuns> arms;
  std::vector<std::string> names;
  if (auto status = database.each("SELECT name FROM arm WHERE study = ? ORDER BY position, name", {study.key},
                                  [&](const Query& row) { names.push_back(row.text(0)); });
      !status) {
    return pass(status);
  }
  for (const auto& name : wanted) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const auto near = did_you_mean(name, names);
    return fail(ErrorKind::usage, fmt::format("study {} has no arm `{}`", study.name, printable(name)),
                near.empty() ? "its arms: " + join(names, ", ") : near);
  }
  const auto asked = [&](const std::string& name) {
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  };
  const bool declared = std::find(names.begin(), names.end(), study.baseline) != names.end();
  baseline = declared && asked(study.baseline) ? study.baseline
             : !wanted.empty()                 ? wanted.front()
             : names.empty()                   ? ""
                                               : names.front();
  for (const auto& name : names) {
    if (asked(name)) arms.push_back({name, {}});
  }
  std::map<std::string, ArmRuns*> by_name;
  for (auto& arm : arms) by_name[arm.arm] = &arm;
  const auto status = database.each(
      "SELECT number, run_id, v_runs.arm, state, config, v_runs.unit, v_runs.seed FROM run JOIN v_runs ON v_runs.run = "
      "run.number "
      "WHERE run.study = ? ORDER BY number",
      {study.key}, [&](const Query& row) {
        const auto arm = row.text(2);
        const auto found = by_name.find(arm);
        if (found == by_name.end()) return;
        RunInfo run;
        run.number = row.integer(0);
        run.id = row.text(1);
        run.arm = arm;
        run.state = row.text(3);
        run.config = row.text(4);
        run.unit = row.text(5);
        run.seed = static_cast<int>(row.integer(6));
        found->second->runs.push_back(run);
      });
  if (!status) return pass(status);
  return arms;
}

/// "stage.metric" or "metric".
bool names_metric(const std::string& wanted, const std::string& stage, const std::string& metric) {
  return wanted == metric || wanted == stage + "." + metric;
}

/// An arm that does not vary along an axis of the recipe is compared at each of its labels with the arms that do.
void repeat_along_axes(std::map<SeriesName, SeriesValues>& series, const std::set<std::string>& axes) {
  if (axes.empty()) return;
  std::vector<SeriesName> repeated;
  for (const auto& entry : series) {
    const SeriesName& name = entry.first;
    bool any = false;
    for (auto& [other, more] : series) {
      if (other.stage != name.stage || other.metric != name.metric || other.labels.size() <= name.labels.size()) continue;
      const bool same = std::includes(other.labels.begin(), other.labels.end(), name.labels.begin(), name.labels.end());
      const bool along = std::all_of(other.labels.begin(), other.labels.end(), [&](const auto& label) {
        return name.labels.count(label.first) != 0 || axes.count(label.first) != 0;
      });
      if (!same || !along) continue;
      for (const auto& [run, value] : entry.second.by_run) more.by_run.emplace(run, value);
      any = true;
    }
    if (any) repeated.push_back(name);
  }
  for (const auto& name : repeated) series.erase(name);
}

Result<std::map<SeriesName, SeriesValues>> load_values(Database& database, const StudyInfo& study,
                                                       const CompareOptions& options) {
  std::map<SeriesName, SeriesValues> out;
  std::set<std::string> known, axes;
  const std::string only = options.metrics.empty() ? "AND stage.verb IN " + std::string(measuring_verbs) : std::string();
  const auto status = database.each(
      "SELECT run.number, run_stage.name, metric_name.name, metric_name.unit, metric_name.better, " + std::string(joined_labels) +
          ", metric_summary.last, "
          "run_stage.position, run_stage.labels FROM run JOIN run_stage ON run_stage.run = run.number JOIN stage ON stage.key = "
          "run_stage.stage "
          "JOIN metric_summary ON metric_summary.stage = stage.key JOIN metric_name ON metric_name.key = metric_summary.name "
          "JOIN label ON label.key = metric_summary.label WHERE run.study = ? AND run_stage.chosen = 1 AND stage.state IN "
          "('done', 'diverged') " +
          only,
      {study.key}, [&](const Query& row) {
        SeriesName name{row.text(1), row.text(2), labels_of(row.text(5))};
        for (const auto& [axis, label] : labels_of(row.text(8))) axes.insert(axis);
        known.insert(name.metric);
        known.insert(name.stage + "." + name.metric);
        if (!options.metrics.empty() &&
            std::none_of(options.metrics.begin(), options.metrics.end(),
                         [&](const std::string& wanted) { return names_metric(wanted, name.stage, name.metric); })) {
          return;
        }
        std::string domain;
        if (const auto found = name.labels.find("domain"); found != name.labels.end()) {
          domain = found->second;
          name.labels.erase(found);
        }
        auto& values = out[name];
        values.unit = row.text(3);
        values.better = static_cast<int>(row.integer(4));
        values.position = static_cast<int>(row.integer(7));
        values.by_run[row.integer(0)][domain] = row.null(6) ? nan : row.real(6);
      });
  if (!status) return pass(status);
  for (const auto& wanted : options.metrics) {
    if (known.count(wanted) != 0) continue;
    std::vector<std::string> names(known.begin(), known.end());
    const auto near = did_you_mean(wanted, names);
    return fail(ErrorKind::usage,
                fmt::format("no finished stage of study {} has recorded a metric `{}`", study.name, printable(wanted)),
                !near.empty()   ? near
                : names.empty() ? "no metric has been recorded yet; `moiety runs` shows the states"
                                : "recorded: " + join(names, ", "));
  }
  repeat_along_axes(out, axes);
  return out;
}

/// Seeds that share a pinned stage in either arm are one unit: unit (its smallest seed) by seed. One group over a whole arm says
/// that all of it rests on one pinned model; that conditions the result, and the seeds stay units.
std::map<int, int> units(std::initializer_list<const ArmRuns*> arms) {
  std::map<int, int> unit;
  const auto root = [&](int seed) {
    while (unit.at(seed) != seed) seed = unit.at(seed);
    return seed;
  };
  for (const auto* arm : arms) {
    for (const auto& run : arm->runs) unit.emplace(run.seed, run.seed);
    std::map<std::string, int> first;
    for (const auto& run : arm->runs) first.emplace(run.unit, run.seed);
    if (first.size() < 2) continue;
    for (const auto& run : arm->runs) {
      if (run.unit.empty()) continue;
      const int a = root(run.seed);
      const int b = root(first.at(run.unit));
      unit[std::max(a, b)] = std::min(a, b);
    }
  }
  std::map<int, int> out;
  for (const auto& [seed, parent] : unit) out[seed] = root(seed);
  return out;
}

std::vector<double> unit_means(const std::map<int, double>& by_seed, const std::map<int, int>& unit_of) {
  std::map<int, std::vector<double>> grouped;
  for (const auto& [seed, value] : by_seed) grouped[unit_of.at(seed)].push_back(value);
  std::vector<double> out;
  for (const auto& [unit, values] : grouped) out.push_back(values.size() == 1 ? values.front() : summarise(values).mean);
  return out;
}

class MetricComparer {
 public:
  MetricComparer(const SeriesName& name, const SeriesValues& values, const std::vector<ArmRuns>& arms,
                 const std::string& baseline, double confidence)
      : name_(name), values_(values), arms_(arms), baseline_(baseline), confidence_(confidence) {
    for (const auto& [run, domains] : values.by_run) {
      for (const auto& [domain, value] : domains) {
        if (!domain.empty()) domains_.insert(domain);
      }
    }
  }

  MetricResult compare() {
    MetricResult out;
    out.stage = name_.stage;
    out.metric = name_.metric;
    out.labels = name_.labels;
    out.unit = values_.unit;
    out.better = values_.better;
    out.domains.assign(domains_.begin(), domains_.end());
    std::map<std::string, std::map<int, double>> by_arm;
    for (const auto& arm : arms_) out.arms.push_back(summarise_arm(arm, by_arm[arm.arm]));
    note_equal_values(out, by_arm);
    const auto base = std::find_if(arms_.begin(), arms_.end(), [&](const ArmRuns& arm) { return arm.arm == baseline_; });
    for (std::size_t i = 0; i < arms_.size(); ++i) {
      if (base == arms_.end() || arms_[i].arm == baseline_) continue;
      compare_pair(out.arms[i], by_arm[arms_[i].arm], by_arm[baseline_], units({&arms_[i], &*base}));
    }
    return out;
  }

 private:
  /// The run's value: nothing when it is missing or lacks a domain that other runs have; NaN when it, or one domain, is not
  /// finite.
  std::optional<double> value_of(const RunInfo& run) const {
    const auto found = values_.by_run.find(run.number);
    if (found == values_.by_run.end()) return std::nullopt;
    std::vector<double> all;
    for (const auto& [domain, value] : found->second) all.push_back(value);
    if (all.size() < domains_.size()) return std::nullopt;
    if (std::any_of(all.begin(), all.end(), [](double value) { return !std::isfinite(value); })) return nan;
    return domains_.empty() ? all.front() : macro_mean(name_.metric, all);
  }

  ArmResult summarise_arm(const ArmRuns& arm, std::map<int, double>& by_seed) const {
    ArmResult out;
    out.arm = arm.arm;
    out.baseline = arm.arm == baseline_;
    std::map<std::string, std::map<int, double>> domain_by_seed;
    for (const auto& run : arm.runs) {
      const auto value = value_of(run);
      if (value && std::isfinite(*value)) {
        by_seed[run.seed] = *value;
        if (domains_.empty()) continue;
        for (const auto& [domain, one] : values_.by_run.at(run.number)) domain_by_seed[domain][run.seed] = one;
      } else if (value || run.state == "diverged") {
        out.diverged.push_back(run.number);
      } else if (run.state == "failed") {
        out.failed.push_back(run.number);
      } else {
        out.unfinished.push_back(run.number);
      }
    }
    const auto unit_of = units({&arm});
    out.summary = summarise(unit_means(by_seed, unit_of));
    for (const auto& [domain, seeds] : domain_by_seed) out.domains[domain] = summarise(unit_means(seeds, unit_of));
    return out;
  }

  static void note_equal_values(MetricResult& out, const std::map<std::string, std::map<int, double>>& by_arm) {
    std::set<double> all;
    bool several = false;
    bool equal_within = true;
    for (const auto& [arm, seeds] : by_arm) {
      std::set<double> within;
      for (const auto& [seed, value] : seeds) within.insert(value);
      all.insert(within.begin(), within.end());
      several = several || seeds.size() > 1;
      equal_within = equal_within && within.size() <= 1;
    }
    out.all_equal = several && all.size() == 1;
    out.seed_moves_nothing = several && equal_within;
  }

  void compare_pair(ArmResult& out, const std::map<int, double>& values, const std::map<int, double>& baseline,
                    const std::map<int, int>& unit_of) const {
    std::map<int, double> by_seed;
    for (const auto& [seed, value] : values) {
      if (const auto other = baseline.find(seed); other != baseline.end()) by_seed[seed] = value - other->second;
    }
    const auto differences = unit_means(by_seed, unit_of);
    if (differences.empty()) return;
    out.difference = summarise(differences);
    out.interval = mean_interval(differences, confidence_);
    out.p = paired_p(differences);
    out.detectable = detectable_difference(differences, confidence_);
  }

  const SeriesName& name_;
  const SeriesValues& values_;
  const std::vector<ArmRuns>& arms_;
  const std::string& baseline_;
  double confidence_;
  std::set<std::string> domains_;
};

/// One correction over the whole table.
void correct(std::vector<MetricResult>& metrics) {
  std::vector<double> p;
  std::vector<ArmResult*> owners;
  for (auto& metric : metrics) {
    for (auto& arm : metric.arms) {
      if (!arm.p) continue;
      p.push_back(*arm.p);
      owners.push_back(&arm);
    }
  }
  const auto adjusted = holm(p);
  for (std::size_t i = 0; i < owners.size(); ++i) owners[i]->p_holm = adjusted[i];
}

/// Why a table would have no rows.
Error empty_table(const StudyInfo& study, const std::vector<ArmRuns>& arms) {
  std::map<std::string, int> states;
  int runs = 0;
  for (const auto& arm : arms) {
    for (const auto& run : arm.runs) {
      ++states[run.state];
      ++runs;
    }
  }
  std::vector<std::string> counts;
  for (const auto& [state, n] : states) counts.push_back(fmt::format("{} {}", n, state));
  if (arms.empty())
    return {ErrorKind::failed, fmt::format("nothing to compare: study {} declares no arms", study.name),
            "add an [arm] table to the recipe"};
  if (runs == 0) {
    return {ErrorKind::failed, fmt::format("nothing to compare: study {} has no runs of these arms", study.name),
            "run its recipe again: it resumes"};
  }
  return {ErrorKind::failed,
          fmt::format("nothing to compare: no measuring stage (evaluate, probe) of study {} has finished; its runs: {}",
                      study.name, join(counts, ", ")),
          "`moiety runs` shows the states, `moiety show RUN` why one failed; other stages' metrics are compared by name: "
          "--metric NAME"};
}

}  // namespace

Result<Comparison> compare_arms(Database& database, const CompareOptions& options) {
  Comparison out;
  const auto study = find_study(database, options.study);
  if (!study) return pass(study);
  out.study = *study;
  out.asked_for_metrics = !options.metrics.empty();
  const auto arms = load_arms(database, *study, options.arms, out.baseline);
  if (!arms) return pass(arms);
  if (auto status = check_same_config(database, *arms); !status) return pass(status);
  const auto values = load_values(database, *study, options);
  if (!values) return pass(values);

  std::vector<std::pair<int, MetricResult>> ordered;
  for (const auto& [name, series] : *values) {
    auto result = MetricComparer(name, series, *arms, out.baseline, study->confidence).compare();
    const bool any = std::any_of(result.arms.begin(), result.arms.end(),
                                 [](const ArmResult& arm) { return arm.summary.n > 0 || !arm.diverged.empty(); });
    if (any) ordered.emplace_back(series.position, std::move(result));
  }
  if (ordered.empty()) return tl::unexpected(empty_table(*study, *arms));
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [position, result] : ordered) out.metrics.push_back(std::move(result));
  correct(out.metrics);

  const auto warnings = environment_warnings(database, study->key, *arms);
  if (!warnings) return pass(warnings);
  out.warnings = *warnings;
  const auto notes = pinned_notes(database, study->key, *arms);
  if (!notes) return pass(notes);
  out.notes = *notes;
  return out;
}

}  // namespace moiety::registry
