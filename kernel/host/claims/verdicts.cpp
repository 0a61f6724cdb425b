#include "kernel/host/claims/verdicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace moiety::host {
namespace {

using registry::Form;
using registry::Statement;
using registry::Verdict;

constexpr std::size_t units_to_agree = 5;

std::vector<double> difference(const std::vector<double>& a, const std::vector<double>& b, double sign) {
  std::vector<double> result;
  for (std::size_t i = 0; i < a.size(); ++i) result.push_back(sign * (a[i] - b[i]));
  return result;
}

double mean_without(const std::vector<double>& values, std::size_t left_out) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += i == left_out ? 0 : values[i];
  return values.size() < 2 ? values.front() : sum / static_cast<double>(values.size() - 1);
}

/// Among the labels from `first` to `last`, that with the highest (sign −1: lowest) mean of the other units.
std::size_t chosen(const Course& course, std::size_t first, std::size_t last, double sign, std::size_t unit) {
  std::size_t best = first;
  for (std::size_t i = first; i <= last; ++i) {
    if (sign * mean_without(course.at[i], unit) > sign * mean_without(course.at[best], unit)) best = i;
  }
  return best;
}

std::vector<double> chosen_values(const Course& course, std::size_t first, std::size_t last, double sign) {
  std::vector<double> result;
  for (std::size_t unit = 0; unit < course.at[0].size(); ++unit)
    result.push_back(course.at[chosen(course, first, last, sign, unit)][unit]);
  return result;
}

Statement above(double by, bool exact) {
  Statement statement;
  statement.form = Form::above;
  statement.by = by;
  statement.exact = exact;
  return statement;
}

Verdict trend(double sign, const Course& course, double confidence, bool all_units) {
  const auto whole =
      decide_values(difference(course.at.back(), course.at.front(), sign), above(course.by, course.exact), confidence, all_units);
  bool turns = false;
  for (std::size_t i = 0; i + 1 < course.at.size(); ++i) {
    // A step turns when it is shown to fall; a count that stays does not fall.
    const auto back = difference(course.at[i], course.at[i + 1], sign);
    const auto fall = decide_values(back, above(course.within, course.exact), confidence, all_units);
    turns = turns || fall.verdict == Verdict::supported;
  }
  if (turns || whole.verdict == Verdict::refuted) return Verdict::refuted;
  return whole.verdict;
}

Verdict extremum(double sign, const Course& course, double confidence, bool all_units) {
  const std::size_t last = course.at.size() - 1;
  const auto inner = chosen_values(course, 1, last - 1, sign);
  bool supported = true, refuted = false;
  for (const std::size_t end : {std::size_t{0}, last}) {
    const auto lead = difference(inner, course.at[end], sign);
    supported =
        supported && decide_values(lead, above(course.by, course.exact), confidence, all_units).verdict == Verdict::supported;
    // Two ends may refute it: each at half the error.
    bool highest = true;
    for (std::size_t i = 1; i < last; ++i) {
      const auto over = difference(course.at[end], course.at[i], sign);
      highest = highest &&
                decide_values(over, above(0, course.exact), 1 - (1 - confidence) / 2, all_units).verdict == Verdict::supported;
    }
    refuted = refuted || highest;
  }
  if (supported) return Verdict::supported;
  // Counts hold or they do not.
  return refuted || course.exact ? Verdict::refuted : Verdict::undecided;
}

std::vector<double> ranges(const Course& course) {
  std::vector<double> result;
  for (std::size_t unit = 0; unit < course.at[0].size(); ++unit) {
    double low = course.at[0][unit], high = low;
    for (const auto& label : course.at) {
      low = std::min(low, label[unit]);
      high = std::max(high, label[unit]);
    }
    result.push_back(high - low);
  }
  return result;
}

/// The range within each unit is too large rather than too small, so it may support; to refute, its ends are chosen elsewhere.
Verdict constancy(const Course& course, double confidence, bool all_units) {
  Statement below;
  below.form = Form::not_above;
  below.within = course.within;
  below.exact = course.exact;
  if (decide_values(ranges(course), below, confidence, all_units).verdict == Verdict::supported) return Verdict::supported;
  const std::size_t last = course.at.size() - 1;
  const auto range = difference(chosen_values(course, 0, last, 1), chosen_values(course, 0, last, -1), 1);
  return decide_values(range, below, confidence, all_units).verdict == Verdict::refuted ? Verdict::refuted : Verdict::undecided;
}

}  // namespace

registry::Decision decide_values(const std::vector<double>& values, const Statement& statement, double confidence,
                                 bool all_units) {
  registry::Decision decision = registry::decide(values, statement, confidence);
  if (!all_units || statement.exact || statement.form == Form::exact_equal) return decision;
  decision.verdict = Verdict::undecided;
  if (values.size() < units_to_agree) {
    decision.reason = fmt::format("n = {}: \"all seeds\" needs five", values.size());
    return decision;
  }
  std::size_t supported = 0, refuted = 0;
  for (const double value : values) {
    const auto one = registry::decide({value, value, value}, statement, confidence).verdict;
    supported += one == Verdict::supported ? 1 : 0;
    refuted += one == Verdict::refuted ? 1 : 0;
  }
  if (supported == values.size()) decision.verdict = Verdict::supported;
  if (refuted == values.size()) decision.verdict = Verdict::refuted;
  decision.reason = fmt::format("all seeds: holds for {} of {}", supported, values.size());
  return decision;
}

std::vector<double> course_values(Relation relation, const Course& course) {
  const std::size_t last = course.at.size() - 1;
  if (relation == Relation::stays) return ranges(course);
  if (relation == Relation::rises || relation == Relation::falls) return difference(course.at[last], course.at[0], 1);
  const double sign = relation == Relation::peaks ? 1 : -1;
  const auto mean = [](const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); };
  const std::size_t end = sign * mean(course.at[0]) > sign * mean(course.at[last]) ? 0 : last;
  return difference(chosen_values(course, 1, last - 1, sign), course.at[end], 1);
}

Verdict decide_course(Relation relation, const Course& course, double confidence, bool all_units) {
  switch (relation) {
    case Relation::rises:
      return trend(1, course, confidence, all_units);
    case Relation::falls:
      return trend(-1, course, confidence, all_units);
    case Relation::peaks:
      return extremum(1, course, confidence, all_units);
    case Relation::dips:
      return extremum(-1, course, confidence, all_units);
    default:
      return constancy(course, confidence, all_units);
  }
}

}  // namespace moiety::host
