#include "kernel/host/claims/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "kernel/base/text.h"
#include "registry/statistics.h"

namespace moiety::host {
namespace {

using registry::VerdictRow;

/// What a term is in one run: a number, or why there is none.
struct Reading {
  double value = 0;
  std::string problem;
};

class Readings {
 public:
  Readings(const Plan& plan, const Measured& measured) : plan_(plan), measured_(measured) {}

  Reading read(const MetricTerm& term, int seed) {
    const PlannedRun* run = plan_.run(term.arm, seed);
    const std::string name = fmt::format("{}/{}", term.arm, seed);
    if (run == nullptr) return {0, "no run " + name};
    const auto found = std::find_if(run->stages.begin(), run->stages.end(), [&](const auto& one) {
      return one.name == term.stage && std::all_of(one.labels.begin(), one.labels.end(), [&](const auto& label) {
               const auto pinned = term.pins.find(label.first);
               return pinned != term.pins.end() && pinned->second == label.second;
             });
    });
    if (found == run->stages.end()) return {0, fmt::format("run {} has no stage {}", name, term.stage)};
    if (state(found->id) != "done") return {0, fmt::format("run {}: {}", name, cause(*run, term.stage))};
    MetricTerm recorded = term;
    for (const auto& [axis, label] : found->labels) recorded.pins.erase(axis);
    return value(recorded, rows(found->id), name);
  }

 private:
  const std::string& state(const std::string& id) {
    const auto [known, is_new] = states_.emplace(id, "");
    if (is_new) known->second = measured_.state(id);
    return known->second;
  }

  const std::vector<registry::MetricRow>& rows(const std::string& id) {
    const auto [known, is_new] = rows_.emplace(id, std::vector<registry::MetricRow>{});
    if (is_new) known->second = measured_.final_rows(id);
    return known->second;
  }

  /// The first stage of the run that is in the way.
  std::string cause(const PlannedRun& run, const std::string& wanted) {
    std::string last;
    for (const auto& [stage, id, labels] : run.stages) {
      const std::string& now = state(id);
      if (now == "failed" || now == "diverged" || now == "interrupted") return fmt::format("stage {} {}", stage, now);
      if (stage == wanted) last = fmt::format("stage {} {}", stage, now.empty() ? "has not run" : "is " + now);
    }
    return last;
  }

  static Reading value(const MetricTerm& term, const std::vector<registry::MetricRow>& rows, const std::string& run) {
    // What is left open is the domains: their mean, of the logarithm for perplexity, which is then the mean of the losses.
    const bool logarithmic = term.name == "perplexity";
    double sum = 0;
    int count = 0;
    bool open = false;
    for (const auto& row : rows) {
      if (row.name != term.name) continue;
      bool matches = true;
      for (const auto& [axis, label] : term.pins) {
        const auto found = row.labels.find(axis);
        matches = matches && found != row.labels.end() && found->second == label;
      }
      if (!matches) continue;
      for (const auto& [axis, label] : row.labels) open = open || term.pins.count(axis) == 0;
      if (!std::isfinite(row.value))
        return {0, fmt::format("run {}: {}.{} is {}", run, term.stage, term.name, number(row.value))};
      if (logarithmic && row.value <= 0)
        return {0, fmt::format("run {}: {}.{} is {}", run, term.stage, term.name, number(row.value))};
      sum += logarithmic ? std::log(row.value) : row.value;
      ++count;
    }
    if (count == 0) return {0, fmt::format("run {}: {}.{} was not recorded", run, term.stage, term.name)};
    if (!open && count == 1) return {logarithmic ? std::exp(sum) : sum, ""};
    const double mean = sum / count;
    return {logarithmic ? std::exp(mean) : mean, ""};
  }

  const Plan& plan_;
  const Measured& measured_;
  std::map<std::string, std::string> states_;
  std::map<std::string, std::vector<registry::MetricRow>> rows_;
};

Reading evaluate(const Expression& node, int seed, Readings& readings) {
  if (node.kind == Expression::Kind::number) return {node.number, ""};
  if (node.kind == Expression::Kind::metric) return readings.read(node.metric, seed);
  const Reading left = evaluate(*node.left, seed, readings);
  if (!left.problem.empty()) return left;
  if (node.kind == Expression::Kind::absolute) return {std::abs(left.value), ""};
  const Reading right = evaluate(*node.right, seed, readings);
  if (!right.problem.empty()) return right;
  switch (node.kind) {
    case Expression::Kind::sum:
      return {left.value + right.value, ""};
    case Expression::Kind::difference:
      return {left.value - right.value, ""};
    case Expression::Kind::product:
      return {left.value * right.value, ""};
    case Expression::Kind::quotient:
      if (right.value == 0) return {0, fmt::format("seed {}: division by zero", seed)};
      return {left.value / right.value, ""};
    default:
      return left;
  }
}

void collect_arms(const Expression& node, std::set<std::string>& arms) {
  if (node.kind == Expression::Kind::metric) arms.insert(node.metric.arm);
  if (node.left != nullptr) collect_arms(*node.left, arms);
  if (node.right != nullptr) collect_arms(*node.right, arms);
}

struct Judged {
  VerdictRow row;
  registry::Statement statement;
  std::vector<double> values;
  bool complete = false;
};

class Judge {
 public:
  Judge(const Plan& plan, const Measured& measured) : plan_(plan), measured_(measured), readings_(plan, measured) {}

  std::vector<VerdictRow> claim(const Claim& claim) {
    std::vector<Judged> parts;
    for (const auto& statement : claim.statements) parts.push_back(part(claim, statement));
    if (parts.size() == 1) {
      parts[0].row.statement.clear();
      return {parts[0].row};
    }
    std::vector<VerdictRow> rows;
    for (const auto& one : parts) rows.push_back(one.row);
    rows.push_back(whole(claim, parts));
    return rows;
  }

 private:
  Judged part(const Claim& claim, const ClaimStatement& statement) {
    Judged result;
    result.row.claim_id = claim.id;
    result.row.statement = statement.text;
    result.row.unit = statement.unit;
    std::set<std::string> arms;
    collect_arms(*statement.left, arms);
    if (statement.right != nullptr) collect_arms(*statement.right, arms);

    // Left minus right, turned so that the statement says "above".
    const bool turned = statement.relation == Relation::less || statement.relation == Relation::not_below;
    std::vector<std::string> problems;
    std::vector<std::pair<int, double>> differences;
    double right_sum = 0;
    for (int seed = 1; seed <= plan_.seeds; ++seed) {
      for (const auto& arm : arms) note_run(arm, seed, result.row.runs);
      const Reading left = evaluate(*statement.left, seed, readings_);
      const Reading right = statement.right != nullptr ? evaluate(*statement.right, seed, readings_) : Reading{};
      for (const auto* side : {&left, &right}) {
        if (!side->problem.empty() && std::find(problems.begin(), problems.end(), side->problem) == problems.end())
          problems.push_back(side->problem);
      }
      if (!left.problem.empty() || !right.problem.empty()) continue;
      differences.emplace_back(seed, turned ? right.value - left.value : left.value - right.value);
      right_sum += right.value;
    }
    const double right_mean = differences.empty() ? 0 : right_sum / static_cast<double>(differences.size());
    result.values = by_unit(differences, arms);
    result.complete = problems.empty();
    result.statement = to_statement(claim, statement, right_mean);

    const auto decision = registry::decide(result.values, result.statement, plan_.confidence);
    result.row.n = static_cast<int>(result.values.size());
    if (decision.interval) {
      result.row.effect = decision.interval->mean;
      result.row.low = decision.interval->low;
      result.row.high = decision.interval->high;
    } else if (!result.values.empty()) {
      result.row.effect =
          std::accumulate(result.values.begin(), result.values.end(), 0.0) / static_cast<double>(result.values.size());
    }
    // The effect is told as left minus right, as people read the statement.
    if (turned && result.row.effect) {
      result.row.effect = -*result.row.effect;
      if (result.row.low) {
        const double low = -*result.row.high;
        result.row.high = -*result.row.low;
        result.row.low = low;
      }
    }
    result.row.verdict = registry::name(result.complete ? decision.verdict : registry::Verdict::undecided);
    result.row.reason = result.complete ? decision.reason : missing(problems);
    const std::string condition = conditions(arms, differences.size());
    if (!condition.empty()) result.row.reason += (result.row.reason.empty() ? "" : "; ") + condition;
    return result;
  }

  static std::string missing(const std::vector<std::string>& problems) {
    constexpr std::size_t shown = 5;
    const std::vector<std::string> first(problems.begin(),
                                         problems.begin() + static_cast<std::ptrdiff_t>(std::min(shown, problems.size())));
    return join(first, "; ") + (problems.size() > shown ? fmt::format("; and {} more", problems.size() - shown) : "");
  }

  static double in_units(const Margin& margin, double right_mean) {
    if (margin.unit == Margin::Unit::percent) return margin.value / 100 * std::abs(right_mean);
    return margin.unit == Margin::Unit::points ? margin.value / 100 : margin.value;
  }

  static registry::Statement to_statement(const Claim& claim, const ClaimStatement& statement, double right_mean) {
    registry::Statement result;
    switch (statement.relation) {
      case Relation::less:
      case Relation::greater:
        result.form = registry::Form::above;
        break;
      case Relation::not_above:
      case Relation::not_below:
        result.form = registry::Form::not_above;
        break;
      case Relation::about:
        result.form = registry::Form::equivalent;
        break;
      case Relation::equal:
        result.form = registry::Form::exact_equal;
        break;
      case Relation::inside:
        result.form = registry::Form::inside;
        break;
    }
    if (statement.by) result.by = in_units(*statement.by, right_mean);
    if (statement.within) result.within = in_units(*statement.within, right_mean);
    if (statement.low) result.low = in_units(*statement.low, 0);
    if (statement.high) result.high = in_units(*statement.high, 0);
    if (claim.margin && result.form == registry::Form::above) result.margin = in_units(*claim.margin, right_mean);
    return result;
  }

  void note_run(const std::string& arm, int seed, std::vector<std::string>& runs) const {
    const std::string id = measured_.run_id ? measured_.run_id(arm, seed) : "";
    if (!id.empty() && std::find(runs.begin(), runs.end(), id) == runs.end()) runs.push_back(id);
  }

  /// One value a unit: seeds whose runs share a model, in any of the arms, are averaged.
  std::vector<double> by_unit(const std::vector<std::pair<int, double>>& differences, const std::set<std::string>& arms) const {
    std::vector<std::size_t> leader(differences.size());
    std::iota(leader.begin(), leader.end(), 0);
    const auto find = [&](std::size_t i) {
      while (leader[i] != i) i = leader[i];
      return i;
    };
    for (const auto& arm : arms) {
      std::map<std::string, std::size_t> first;
      for (std::size_t i = 0; i < differences.size(); ++i) {
        const PlannedRun* run = plan_.run(arm, differences[i].first);
        if (run == nullptr || run->group.empty()) continue;
        const auto [known, is_new] = first.emplace(run->group, i);
        if (is_new) continue;
        const std::size_t a = find(known->second), b = find(i);
        leader[std::max(a, b)] = std::min(a, b);
      }
    }
    std::map<std::size_t, std::pair<double, int>> units;
    for (std::size_t i = 0; i < differences.size(); ++i) {
      auto& [sum, count] = units[find(i)];
      sum += differences[i].second;
      ++count;
    }
    std::vector<double> values;
    for (const auto& [unit, total] : units) values.push_back(total.first / total.second);
    return values;
  }

  /// "over 5 runs of 1 pretrained": a model that all runs share conditions the verdict.
  std::string conditions(const std::set<std::string>& arms, std::size_t runs) const {
    if (plan_.seeds < 2 || runs < 2) return {};
    std::vector<std::string> names;
    for (const auto& arm : arms) {
      const PlannedRun* first = plan_.run(arm, 1);
      if (first == nullptr) continue;
      for (const auto& [name, id, labels] : first->stages) {
        const PlannedStage* stage = plan_.stage(id);
        if (stage == nullptr || !stage->pinned || stage->verb->leaves != "model") continue;
        bool shared = true;
        for (int seed = 2; seed <= plan_.seeds; ++seed) {
          const PlannedRun* run = plan_.run(arm, seed);
          shared = shared && run != nullptr &&
                   std::any_of(run->stages.begin(), run->stages.end(), [&, &id = id](const auto& one) { return one.id == id; });
        }
        if (shared && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      }
    }
    return names.empty() ? "" : fmt::format("over {} runs of 1 {}", runs, join(names, " and 1 "));
  }

  /// Supported when all parts are, each at full confidence; refuted when one is after Holm, whose first step is the smallest p at
  /// the confidence divided by the number of parts; else undecided.
  VerdictRow whole(const Claim& claim, const std::vector<Judged>& parts) const {
    VerdictRow row;
    row.claim_id = claim.id;
    const double stricter = 1 - (1 - plan_.confidence) / static_cast<double>(parts.size());
    bool all = true;
    std::string refuted;
    std::vector<std::string> open;
    row.n = parts.empty() ? 0 : parts[0].row.n;
    for (const auto& one : parts) {
      row.n = std::min(row.n, one.row.n);
      for (const auto& run : one.row.runs) {
        if (std::find(row.runs.begin(), row.runs.end(), run) == row.runs.end()) row.runs.push_back(run);
      }
      if (one.row.verdict != registry::name(registry::Verdict::supported)) {
        all = false;
        open.push_back(one.row.statement);
      }
      if (one.complete && registry::decide(one.values, one.statement, stricter).verdict == registry::Verdict::refuted &&
          refuted.empty()) {
        refuted = one.row.statement;
      }
    }
    if (all) {
      row.verdict = registry::name(registry::Verdict::supported);
      row.reason = fmt::format("all {} parts are supported", parts.size());
    } else if (!refuted.empty()) {
      row.verdict = registry::name(registry::Verdict::refuted);
      row.reason = "refuted (after Holm): " + refuted;
    } else {
      row.verdict = registry::name(registry::Verdict::undecided);
      row.reason = "not supported: " + join(open, "; ");
    }
    return row;
  }

  const Plan& plan_;
  const Measured& measured_;
  Readings readings_;
};

}  // namespace

std::vector<VerdictRow> judge(const std::vector<Claim>& claims, const Plan& plan, const Measured& measured) {
  Judge judge_one(plan, measured);
  std::vector<VerdictRow> rows;
  for (const auto& claim : claims) {
    for (auto& row : judge_one.claim(claim)) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace moiety::host
