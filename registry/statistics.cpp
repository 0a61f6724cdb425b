#include "registry/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "kernel/base/text.h"

namespace moiety::registry {

namespace {

constexpr int bootstrap_from = 20;
constexpr int bootstrap_draws = 10'000;
constexpr std::uint64_t bootstrap_seed = 0x6D6F69657479;

/// The quantile of sorted values by linear interpolation (R's type 7).
double quantile_of_sorted(const std::vector<double>& sorted, double p) {
  const double position = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

/// Efron & Tibshirani, "An Introduction to the Bootstrap" (1993), 12.5: quantiles of the studentised resampled mean take the
/// place of Student's.
Interval bootstrap_t(const std::vector<double>& values, const Summary& summary, double confidence) {
  const auto n = values.size();
  const double root = std::sqrt(static_cast<double>(n));
  const auto count = static_cast<double>(n);
  std::mt19937_64 engine(bootstrap_seed);
  std::vector<double> t;
  t.reserve(bootstrap_draws);
  // Around the mean and in units of the deviation, sums of squares neither lose digits nor overflow: two sums a draw are enough.
  std::vector<double> centred(values);
  for (auto& value : centred) value = (value - summary.mean) / summary.sd;
  while (t.size() < bootstrap_draws) {
    double sum = 0;
    double squares = 0;
    for (std::size_t i = 0; i < n; ++i) {
      // Not std::uniform_int_distribution, whose draws differ between standard libraries; n is far below 2^32, so no index is
      // favoured measurably.
      const double value = centred[((engine() >> 32U) * n) >> 32U];
      sum += value;
      squares += value * value;
    }
    const double variance = (squares - sum * sum / count) / (count - 1);
    // A draw of one value only, up to rounding, has no t.
    if (variance > 1e-18) t.push_back(sum / count / (std::sqrt(variance) / root));
  }
  std::sort(t.begin(), t.end());
  const double tail = (1 - confidence) / 2;
  const double error = summary.sd / root;
  return {summary.mean, summary.mean - quantile_of_sorted(t, 1 - tail) * error,
          summary.mean - quantile_of_sorted(t, tail) * error, summary.n, "bootstrap-t"};
}

bool all_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}

/// +1 the interval supports the statement, -1 it refutes it, 0 neither.
int judge(double low, double high, const Statement& statement) {
  const bool inside_margin = statement.margin && low > -*statement.margin && high < *statement.margin;
  switch (statement.form) {
    case Form::above:
      return low > statement.by ? 1 : high < statement.by || inside_margin ? -1 : 0;
    case Form::not_above:
      return high < statement.within ? 1 : low > statement.within ? -1 : 0;
    case Form::equivalent:
      return low > -statement.within && high < statement.within ? 1 : low > statement.within || high < -statement.within ? -1 : 0;
    case Form::inside:
      return low >= statement.low && high <= statement.high ? 1 : low > statement.high || high < statement.low ? -1 : 0;
    case Form::exact_equal:
      return low == 0 && high == 0 ? 1 : -1;
  }
  return 0;
}

bool holds_exactly(double x, const Statement& statement) {
  switch (statement.form) {
    case Form::above:
      return x > statement.by;
    case Form::not_above:
      return x <= statement.within;
    case Form::equivalent:
      return std::abs(x) <= statement.within;
    case Form::inside:
      return x >= statement.low && x <= statement.high;
    case Form::exact_equal:
      return x == 0;
  }
  return false;
}

std::string undecided_reason(const Interval& interval, const Statement& statement) {
  const auto range = fmt::format("the interval {:.4g} .. {:.4g}", interval.low, interval.high);
  switch (statement.form) {
    case Form::above:
      return fmt::format("{} includes {}", range, number(statement.by));
    case Form::not_above:
      return fmt::format("{} includes {}", range, number(statement.within));
    case Form::equivalent:
      return fmt::format("{} reaches over ±{}", range, number(statement.within));
    case Form::inside:
      return fmt::format("{} reaches over {} .. {}", range, number(statement.low), number(statement.high));
    case Form::exact_equal:
      break;
  }
  return range;
}

}  // namespace

Summary summarise(const std::vector<double>& values) {
  // Welford 1962: stable where sum(x^2) - n mean^2 cancels.
  Summary out;
  double squares = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    ++out.n;
    const double before = value - out.mean;
    out.mean += before / out.n;
    squares += before * (value - out.mean);
  }
  if (out.n >= 2) out.sd = std::sqrt(squares / (out.n - 1));
  return out;
}

double student_t_quantile(double p, double degrees) {
  if (!(p > 0 && p < 1 && degrees > 0)) return std::numeric_limits<double>::quiet_NaN();
  return boost::math::quantile(boost::math::students_t(degrees), p);
}

double student_t_two_sided_p(double t, double degrees) {
  if (std::isnan(t) || !(degrees > 0)) return std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(t)) return 0;
  return 2 * boost::math::cdf(boost::math::complement(boost::math::students_t(degrees), std::abs(t)));
}

std::optional<Interval> mean_interval(const std::vector<double>& values, double confidence) {
  const Summary summary = summarise(values);
  if (summary.n < 2 || summary.n != static_cast<int>(values.size()) || !(confidence > 0 && confidence < 1)) return std::nullopt;
  // Equal values: the mean of a thousand times 0.1 is not exactly 0.1, and its deviation not exactly 0.
  if (std::all_of(values.begin(), values.end(), [&](double value) { return value == values.front(); })) {
    return Interval{values.front(), values.front(), values.front(), summary.n, summary.n < bootstrap_from ? "t" : "bootstrap-t"};
  }
  // A deviation beyond a double's range (a perplexity of 1e200) leaves Student's interval without ends, which decides nothing.
  if (summary.n >= bootstrap_from && summary.sd > 0 && std::isfinite(summary.sd)) return bootstrap_t(values, summary, confidence);
  const double half = student_t_quantile((1 + confidence) / 2, summary.n - 1) * summary.sd / std::sqrt(summary.n);
  return Interval{summary.mean, summary.mean - half, summary.mean + half, summary.n, "t"};
}

std::optional<double> paired_p(const std::vector<double>& differences) {
  const Summary summary = summarise(differences);
  if (summary.n < 3 || summary.n != static_cast<int>(differences.size())) return std::nullopt;
  if (std::all_of(differences.begin(), differences.end(), [&](double value) { return value == differences.front(); })) {
    return std::nullopt;
  }
  return student_t_two_sided_p(summary.mean / (summary.sd / std::sqrt(summary.n)), summary.n - 1);
}

std::optional<double> detectable_difference(const std::vector<double>& differences, double confidence) {
  const Summary summary = summarise(differences);
  if (summary.n < 3 || !(confidence > 0 && confidence < 1)) return std::nullopt;
  constexpr double power = 0.8;
  const double degrees = summary.n - 1;
  return (student_t_quantile((1 + confidence) / 2, degrees) + student_t_quantile(power, degrees)) * summary.sd /
         std::sqrt(summary.n);
}

std::vector<double> holm(const std::vector<double>& p) {
  // Holm 1979: the k-th smallest of m is multiplied by m - k + 1, and no adjusted p is smaller than the one before it.
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    largest = std::max(largest, std::min(1.0, p[order[rank]] * static_cast<double>(p.size() - rank)));
    adjusted[order[rank]] = largest;
  }
  return adjusted;
}

const char* name(Verdict verdict) {
  switch (verdict) {
    case Verdict::supported:
      return "supported";
    case Verdict::refuted:
      return "refuted";
    case Verdict::undecided:
      break;
  }
  return "undecided";
}

Decision decide(const std::vector<double>& per_unit_values, const Statement& statement, double confidence) {
  Decision out;
  if (per_unit_values.empty()) {
    out.reason = "no values";
    return out;
  }
  if (!all_finite(per_unit_values)) {
    out.reason = "a value is not finite (a diverged run)";
    return out;
  }
  if (statement.exact || statement.form == Form::exact_equal) {
    const auto held =
        std::count_if(per_unit_values.begin(), per_unit_values.end(), [&](double x) { return holds_exactly(x, statement); });
    out.verdict = held == static_cast<std::ptrdiff_t>(per_unit_values.size()) ? Verdict::supported : Verdict::refuted;
    out.reason = fmt::format("counts: holds for {} of {}", held, per_unit_values.size());
    return out;
  }
  out.interval = mean_interval(per_unit_values, confidence);
  if (per_unit_values.size() < 3) {
    out.reason = fmt::format("n = {}: fewer than three values decide nothing", per_unit_values.size());
    return out;
  }
  const bool all_zero = std::all_of(per_unit_values.begin(), per_unit_values.end(), [](double x) { return x == 0; });
  if (statement.form == Form::above && all_zero) {
    out.reason = "all values are exactly equal, which decides no strict comparison";
    return out;
  }
  const int judged = judge(out.interval->low, out.interval->high, statement);
  out.verdict = judged > 0 ? Verdict::supported : judged < 0 ? Verdict::refuted : Verdict::undecided;
  out.reason = judged != 0 ? fmt::format("interval {:.4g} .. {:.4g} ({}, n = {})", out.interval->low, out.interval->high,
                                         out.interval->method, out.interval->n)
                           : undecided_reason(*out.interval, statement);
  return out;
}

}  // namespace moiety::registry
