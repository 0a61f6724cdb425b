// Statistics of small paired samples: the unit is the seed. Torch-free, plain double arithmetic.
#ifndef MOIETY_REGISTRY_STATISTICS_H_
#define MOIETY_REGISTRY_STATISTICS_H_

#include <optional>
#include <string>
#include <vector>

namespace moiety::registry {

/// Of the values that are finite; what is not is for the caller to count.
struct Summary {
  int n = 0;
  double mean = 0, sd = 0;  ///< sample standard deviation (n − 1); 0 for n < 2
};
Summary summarise(const std::vector<double>& values);

struct Interval {
  double mean = 0, low = 0, high = 0;
  int n = 0;
  std::string method;  ///< "t" or "bootstrap-t"
};
/// Two-sided interval of the mean: Student's t for n < 20, bootstrap-t (fixed seed, 10,000 draws) from 20 on. Nothing below n
/// = 2.
std::optional<Interval> mean_interval(const std::vector<double>& values, double confidence);

/// NaN outside 0 < p < 1 and degrees > 0.
double student_t_quantile(double p, double degrees);
double student_t_two_sided_p(double t, double degrees);

/// Two-sided p of the mean being 0: Student's t. Nothing below n = 3, nor when all values are equal (t has no scale then).
std::optional<double> paired_p(const std::vector<double>& differences);

/// The smallest true difference that n pairs with this deviation would find significant four times out of five (power 0.8).
/// Nothing below n = 3.
std::optional<double> detectable_difference(const std::vector<double>& differences, double confidence);

/// Holm's step-down adjusted p values, in the order given.
std::vector<double> holm(const std::vector<double>& p);

/// What a statement of a claim asserts about x = left − right (or about x itself for `inside`).
enum class Form {
  above,        ///< x > by          a > b by m
  not_above,    ///< x <= within     a <= b within m
  equivalent,   ///< |x| <= within   a ~ b within m
  inside,       ///< low <= x <= high
  exact_equal,  ///< counts only: x == 0
};
enum class Verdict { supported, refuted, undecided };
const char* name(Verdict verdict);

struct Statement {
  Form form = Form::above;
  double by = 0, within = 0, low = 0, high = 0;
  std::optional<double> margin;  ///< strict comparisons: an interval inside ±margin refutes
  bool exact = false;            ///< x is a count (flops, tokens, parameters): the relation holds for every value, or it does not
};
struct Decision {
  Verdict verdict = Verdict::undecided;
  std::optional<Interval> interval;
  std::string reason;
};
/// The verdict table: a strict comparison is supported when the interval lies wholly above `by`, refuted when wholly below it or
/// inside ±margin; fewer than three values never decide; values that are all exactly 0 decide no strict comparison. Counts
/// (`exact`, or the form exact_equal) need no interval: one value decides.
Decision decide(const std::vector<double>& per_unit_values, const Statement& statement, double confidence);

}  // namespace moiety::registry

#endif  // MOIETY_REGISTRY_STATISTICS_H_
