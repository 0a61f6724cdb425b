#include "kernel/host/claims/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "kernel/base/text.h"
#include "kernel/host/claims/chosen.h"
#include "kernel/host/claims/equal.h"
#include "kernel/host/claims/evaluate.h"
#include "kernel/host/claims/judged.h"
#include "kernel/host/claims/units.h"
#include "kernel/host/claims/verdicts.h"
#include "registry/statistics.h"

namespace moiety::host {
namespace {

using registry::VerdictRow;

void collect_arms(const Expression& node, std::set<std::string>& arms) {
  if (node.kind == Expression::Kind::metric) arms.insert(node.metric.arm);
  if (node.left != nullptr) collect_arms(*node.left, arms);
  if (node.right != nullptr) collect_arms(*node.right, arms);
  if (node.where_metric != nullptr) collect_arms(*node.where_metric, arms);
}

double in_units(const Margin& margin, double right_mean) {
  if (margin.unit == Margin::Unit::percent) return margin.value / 100 * std::abs(right_mean);
  return margin.unit == Margin::Unit::points ? margin.value / 100 : margin.value;
}

registry::Statement to_statement(const Claim& claim, const ClaimStatement& statement, double right_mean) {
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
    default:
      result.form = registry::Form::inside;
      break;
  }
  if (statement.by) result.by = in_units(*statement.by, right_mean);
  if (statement.within) result.within = in_units(*statement.within, right_mean);
  if (statement.low) result.low = in_units(*statement.low, 0);
  if (statement.high) result.high = in_units(*statement.high, 0);
  if (claim.margin && result.form == registry::Form::above) result.margin = in_units(*claim.margin, right_mean);
  result.exact = statement.counts;
  return result;
}

class Judge {
 public:
  Judge(const Plan& plan, const Measured& measured) : plan_(plan), measured_(measured), evaluator_(plan, measured) {}

  /// The rows of a claim, the whole last, with what decides it.
  JudgedClaim claim(const Claim& claim) {
    JudgedClaim result;
    std::vector<Judged> parts;
    for (const auto& statement : claim.statements) {
      std::vector<Judged> cells;
      for (const auto& at : cells_of(statement)) cells.push_back(part(claim, statement, at));
      cells.erase(std::remove_if(cells.begin(), cells.end(), [](const Judged& one) { return one.row.n < 0; }), cells.end());
      result.statistical = result.statistical || (!claim.explore && !statement.counts);
      if (claim.explore || claim.quantifier == Quantifier::every || statement.quantified.empty()) {
        parts.insert(parts.end(), cells.begin(), cells.end());
        continue;
      }
      for (const auto& one : cells) result.rows.push_back(one.row);
      parts.push_back(counted(claim, statement, cells, plan_.confidence));
    }
    result.decide = [parts](double confidence) { return verdict_of(parts, confidence); };
    if (parts.size() == 1) {
      parts[0].row.statement.clear();
      result.rows.push_back(parts[0].row);
      return result;
    }
    for (const auto& one : parts) result.rows.push_back(one.row);
    result.rows.push_back(whole(claim, parts, plan_.confidence));
    return result;
  }

 private:
  static std::vector<const Expression*> sides(const ClaimStatement& statement) {
    std::vector<const Expression*> all = {statement.left.get()};
    if (statement.right != nullptr) all.push_back(statement.right.get());
    return all;
  }

  std::vector<AxisLabels> cells_of(const ClaimStatement& statement) {
    return evaluator_.cells(statement.quantified, sides(statement), {});
  }

  /// A row whose n is negative: `skip` leaves the combination out, for every seed.
  Judged part(const Claim& claim, const ClaimStatement& statement, const AxisLabels& at) {
    Judged result;
    result.row.claim_id = claim.id;
    result.row.statement = instance_text(statement.text, at);
    result.row.unit = statement.unit;
    std::set<std::string> arms;
    for (const auto* side : sides(statement)) collect_arms(*side, arms);
    for (int seed = 1; seed <= plan_.seeds; ++seed) {
      for (const auto& arm : arms) note_run(arm, seed, result.row.runs);
    }
    const std::size_t runs = statement.relation == Relation::reported ? report(statement, at, arms, result)
                             : statement.relation >= Relation::rises  ? course(claim, statement, at, arms, result)
                                                                      : comparison(claim, statement, at, arms, result);
    const std::string condition = conditions(plan_, arms, runs);
    if (!condition.empty()) result.row.reason += (result.row.reason.empty() ? "" : "; ") + condition;
    return result;
  }

  static void note(const std::string& problem, std::vector<std::string>& problems) {
    if (!problem.empty() && std::find(problems.begin(), problems.end(), problem) == problems.end()) problems.push_back(problem);
  }

  /// `effect` is turned back by `sign`: it is told as left minus right, as people read the statement.
  void fill(Judged& result, const std::vector<double>& values, double sign, double confidence) const {
    const auto interval = registry::mean_interval(values, confidence);
    result.row.n = static_cast<int>(values.size());
    if (values.empty()) return;
    result.row.effect = sign * std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    if (!interval) return;
    result.row.effect = sign * interval->mean;
    result.row.low = sign > 0 ? interval->low : -interval->high;
    result.row.high = sign > 0 ? interval->high : -interval->low;
  }

  /// `explore`: the mean with its interval, and no verdict.
  std::size_t report(const ClaimStatement& statement, const AxisLabels& at, const std::set<std::string>& arms, Judged& result) {
    std::vector<std::string> problems;
    std::vector<std::pair<int, double>> values;
    int absent = 0;
    for (int seed = 1; seed <= plan_.seeds; ++seed) {
      const Reading reading = evaluator_.evaluate(*statement.left, seed, at);
      absent += reading.absent ? 1 : 0;
      note(reading.problem, problems);
      if (reading.problem.empty()) values.emplace_back(seed, reading.value);
    }
    fill(result, by_unit(plan_, values, arms), 1, plan_.confidence);
    result.row.verdict = explored;
    result.row.reason = missing(problems);
    if (absent == plan_.seeds && !at.empty()) result.row.n = -1;
    return values.size();
  }

  std::size_t comparison(const Claim& claim, const ClaimStatement& statement, const AxisLabels& at,
                         const std::set<std::string>& arms, Judged& result) {
    // Left minus right, turned so that the statement says "above".
    const bool turned = statement.relation == Relation::less || statement.relation == Relation::not_below;
    std::vector<std::string> problems;
    std::vector<std::pair<int, double>> differences;
    double right_sum = 0;
    int absent = 0;
    for (int seed = 1; seed <= plan_.seeds; ++seed) {
      const Reading left = evaluator_.evaluate(*statement.left, seed, at);
      const Reading right = statement.right != nullptr ? evaluator_.evaluate(*statement.right, seed, at) : Reading{};
      absent += left.absent || right.absent ? 1 : 0;
      for (const auto* side : {&left, &right}) note(side->problem, problems);
      if (!left.problem.empty() || !right.problem.empty()) continue;
      differences.emplace_back(seed, turned ? right.value - left.value : left.value - right.value);
      right_sum += right.value;
    }
    const double right_mean = differences.empty() ? 0 : right_sum / static_cast<double>(differences.size());
    const auto values = by_unit(plan_, differences, arms);
    result.complete = problems.empty();
    const auto asserted = to_statement(claim, statement, right_mean);
    result.decide = [values, asserted, all = claim.all_seeds](double confidence) {
      return decide_values(values, asserted, confidence, all).verdict;
    };
    const auto decision = decide_values(values, asserted, plan_.confidence, claim.all_seeds);
    fill(result, values, turned ? -1 : 1, plan_.confidence);
    result.row.verdict = registry::name(result.complete ? decision.verdict : registry::Verdict::undecided);
    result.row.reason = result.complete ? decision.reason : missing(problems);
    if (absent == plan_.seeds && !at.empty()) result.row.n = -1;
    return differences.size();
  }

  /// How the left side goes along an axis: in each seed one value a label.
  std::size_t course(const Claim& claim, const ClaimStatement& statement, const AxisLabels& at, const std::set<std::string>& arms,
                     Judged& result) {
    std::vector<std::string> problems;
    std::vector<std::vector<std::pair<int, double>>> by_label;
    double sum = 0;
    int count = 0;
    for (const auto& cell : evaluator_.cells({statement.along}, sides(statement), at)) {
      std::vector<std::pair<int, double>> values;
      bool skipped = false;
      for (int seed = 1; seed <= plan_.seeds; ++seed) {
        const Reading reading = evaluator_.evaluate(*statement.left, seed, cell);
        skipped = skipped || reading.absent;
        if (reading.absent) continue;
        note(reading.problem, problems);
        if (!reading.problem.empty()) continue;
        values.emplace_back(seed, reading.value);
        sum += reading.value;
        ++count;
      }
      if (!skipped) by_label.push_back(std::move(values));
    }
    const std::size_t needed = statement.relation == Relation::peaks || statement.relation == Relation::dips ? 3 : 2;
    if (problems.empty() && by_label.size() < needed)
      problems.push_back(fmt::format("`{}` has {} labels here", statement.along.axis, by_label.size()));
    result.complete = problems.empty();
    result.row.verdict = registry::name(registry::Verdict::undecided);
    result.row.reason = missing(problems);
    if (!result.complete) return 0;
    Course along;
    along.exact = statement.counts;
    const double mean = count == 0 ? 0 : sum / count;
    if (statement.by) along.by = in_units(*statement.by, mean);
    if (statement.within) along.within = in_units(*statement.within, mean);
    for (const auto& values : by_label) along.at.push_back(by_unit(plan_, values, arms));
    result.decide = [along, relation = statement.relation, all = claim.all_seeds](double confidence) {
      return decide_course(relation, along, confidence, all);
    };
    fill(result, course_values(statement.relation, along), 1, plan_.confidence);
    result.row.verdict = registry::name(result.decide(plan_.confidence));
    std::vector<std::string> means;
    for (const auto& values : along.at)
      means.push_back(
          fmt::format("{:.4g}", std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size())));
    result.row.reason = "means along " + statement.along.axis + ": " + join(means, ", ");
    return by_label[0].size();
  }

  static std::string missing(const std::vector<std::string>& problems) {
    constexpr std::size_t shown = 5;
    const std::vector<std::string> first(problems.begin(),
                                         problems.begin() + static_cast<std::ptrdiff_t>(std::min(shown, problems.size())));
    return join(first, "; ") + (problems.size() > shown ? fmt::format("; and {} more", problems.size() - shown) : "");
  }

  void note_run(const std::string& arm, int seed, std::vector<std::string>& runs) const {
    const std::string id = measured_.run_id ? measured_.run_id(arm, seed) : "";
    if (!id.empty() && std::find(runs.begin(), runs.end(), id) == runs.end()) runs.push_back(id);
  }

  const Plan& plan_;
  const Measured& measured_;
  Evaluator evaluator_;
};

}  // namespace

std::vector<VerdictRow> judge(const std::vector<Claim>& claims, const Plan& plan, const Measured& measured) {
  Judge judge_one(plan, measured);
  std::vector<JudgedClaim> judged;
  for (const auto& claim : claims) {
    judged.push_back(judge_one.claim(claim));
    if (measured.equal_unknown.count(claim.id) == 0) continue;
    const auto check = check_equal({claim}, plan, measured.counts);
    if (!check.problems.empty()) withdraw(judged.back(), check.problems[0]);
    if (!check.unknown.empty()) withdraw(judged.back(), "`equal` could not be checked: a count is not known");
  }
  adjust(judged, plan.confidence);
  std::vector<VerdictRow> rows;
  for (auto& one : judged) {
    for (auto& row : one.rows) rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<VerdictRow> judge_counts(const std::vector<Claim>& claims, const Plan& plan, const CountsOf& counts) {
  std::vector<Claim> countable;
  for (const auto& claim : claims) {
    const bool all = std::all_of(claim.statements.begin(), claim.statements.end(), [](const auto& one) { return one.counts; });
    if (all && !claim.explore && !claim.statements.empty()) countable.push_back(claim);
  }
  Measured measured;
  measured.state = [](const std::string&) { return std::string(); };
  measured.final_rows = [](const std::string&) { return std::vector<registry::MetricRow>(); };
  measured.counts = counts;
  const auto reported = reported_before(plan, counts);
  return reported ? judge(countable, *reported, measured) : std::vector<VerdictRow>();
}

}  // namespace moiety::host
