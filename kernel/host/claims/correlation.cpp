#include "kernel/host/claims/correlation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moiety::host {
namespace {

std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<double> result;
  for (const double value : values) {
    const auto below = std::count_if(values.begin(), values.end(), [&](double other) { return other < value; });
    const auto equal = std::count(values.begin(), values.end(), value);
    result.push_back(static_cast<double>(below) + (static_cast<double>(equal) + 1) / 2);
  }
  return result;
}

struct Moments {
  double xx = 0, xy = 0, yy = 0;
};

Moments moments(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / n, mean_y = std::accumulate(y.begin(), y.end(), 0.0) / n;
  Moments result;
  for (std::size_t i = 0; i < x.size(); ++i) {
    result.xx += (x[i] - mean_x) * (x[i] - mean_x);
    result.xy += (x[i] - mean_x) * (y[i] - mean_y);
    result.yy += (y[i] - mean_y) * (y[i] - mean_y);
  }
  return result;
}

int sign(double value) { return value > 0 ? 1 : value < 0 ? -1 : 0; }

}  // namespace

std::optional<double> spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const Moments of = moments(ranks(a), ranks(b));
  if (!(of.xx > 0 && of.yy > 0)) return std::nullopt;
  return of.xy / std::sqrt(of.xx * of.yy);
}

std::optional<double> kendall(const std::vector<double>& a, const std::vector<double>& b) {
  double both = 0, in_a = 0, in_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const int left = sign(a[i] - a[j]), right = sign(b[i] - b[j]);
      both += left * right;
      in_a += left * left;
      in_b += right * right;
    }
  }
  if (in_a == 0 || in_b == 0) return std::nullopt;
  return both / std::sqrt(in_a * in_b);
}

std::optional<double> sign_agreement(const std::vector<double>& a, const std::vector<double>& b) {
  int equal = 0, count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == 0 || b[i] == 0) continue;
    ++count;
    equal += sign(a[i]) == sign(b[i]) ? 1 : 0;
  }
  if (count == 0) return std::nullopt;
  return static_cast<double>(equal) / count;
}

std::optional<double> log_slope(const std::vector<double>& x, const std::vector<double>& y) {
  std::vector<double> log_x, log_y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!(x[i] > 0 && y[i] > 0)) return std::nullopt;
    log_x.push_back(std::log(x[i]));
    log_y.push_back(std::log(y[i]));
  }
  const Moments of = moments(log_x, log_y);
  if (!(of.xx > 0)) return std::nullopt;
  return of.xy / of.xx;
}

}  // namespace moiety::host
