// Student's t: the chance of a mean as far from 0 as the one measured, if the true one were 0.
#ifndef MOIETY_PLUGINS_PROBES_LIE_BRACKET_STUDENT_T_H_
#define MOIETY_PLUGINS_PROBES_LIE_BRACKET_STUDENT_T_H_

#include <cmath>

namespace moiety::bracket {

/// I_x(a, b), the regularised incomplete beta function, by its continued fraction (Lentz).
inline double incomplete_beta(double a, double b, double x) {
  if (!(x > 0)) return 0;
  if (!(x < 1)) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(b, a, 1 - x);
  constexpr double tiny = 1e-300;
  const auto kept = [](double value) { return std::abs(value) < tiny ? tiny : value; };
  double c = 1, d = 1 / kept(1 - (a + b) * x / (a + 1)), fraction = d;
  for (int m = 1; m < 1000; ++m) {
    for (const double factor :
         {m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))}) {
      d = 1 / kept(1 + factor * d);
      c = kept(1 + factor / c);
      fraction *= c * d;
    }
    if (std::abs(c * d - 1) < 1e-15) break;
  }
  const double front = std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x);
  return std::exp(front) * fraction / a;
}

/// Two-sided.
inline double p_of_t(double t, double degrees) {
  if (std::isinf(t)) return 0;
  return incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t));
}

}  // namespace moiety::bracket

#endif  // MOIETY_PLUGINS_PROBES_LIE_BRACKET_STUDENT_T_H_
