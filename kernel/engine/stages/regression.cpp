#include "kernel/engine/stages/regression.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moiety::engine {
namespace {

/// Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); below 1 by a power of a uniform number.
double gamma_variable(double shape, Random& random) {
  if (shape < 1) return gamma_variable(shape + 1, random) * std::pow(1 - random.uniform(), 1 / shape);
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal(), v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(1 - random.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
    for (std::size_t i = first; i < last; ++i) ranks[order[i]] = (static_cast<double>(first + last) - 1) / 2;
    first = last;
  }
  return ranks;
}

}  // namespace

double RidgeFit::predict(const std::vector<double>& shares) const {
  double loss = mean;
  for (std::size_t k = 0; k < shares.size(); ++k)
    loss += (shares[k] - centre.data_ptr<double>()[k]) * slope.data_ptr<double>()[k];
  return loss;
}

RidgeFit fit_ridge(const at::Tensor& shares, const at::Tensor& losses, double penalty) {
  RidgeFit fit;
  const auto n = static_cast<double>(shares.size(0));
  fit.centre = shares.mean(0).contiguous();
  fit.mean = losses.mean().item<double>();
  const at::Tensor x = shares - fit.centre, y = losses - fit.mean;
  const at::Tensor square = x.t().matmul(x) / n + at::eye(shares.size(1), at::kDouble) * penalty;
  fit.slope = at::linalg_solve(square, x.t().matmul(y) / n).contiguous();
  return fit;
}

std::vector<double> left_out_predictions(const at::Tensor& shares, const at::Tensor& losses, double penalty) {
  std::vector<double> predictions;
  for (std::int64_t i = 0; i < shares.size(0); ++i) {
    const at::Tensor others = at::arange(shares.size(0)).ne(i).nonzero().view({-1});
    const at::Tensor row = shares[i].contiguous();
    predictions.push_back(fit_ridge(shares.index_select(0, others), losses.index_select(0, others), penalty)
                              .predict({row.data_ptr<double>(), row.data_ptr<double>() + row.numel()}));
  }
  return predictions;
}

double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double middle = (static_cast<double>(x.size()) - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - middle) * (y[i] - middle);
    xx += (x[i] - middle) * (x[i] - middle);
    yy += (y[i] - middle) * (y[i] - middle);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

std::vector<double> best_mixture(const RidgeFit& fit, const Search& search, Random random) {
  const auto domains = static_cast<std::size_t>(fit.centre.numel());
  const double* centre = fit.centre.data_ptr<double>();
  std::vector<std::pair<double, std::vector<double>>> found;
  for (std::int64_t s = 0; s < search.samples; ++s) {
    std::vector<double> shares(domains);
    double sum = 0;
    for (std::size_t k = 0; k < domains; ++k)
      if (centre[k] > 0) sum += shares[k] = gamma_variable(search.concentration * centre[k], random);
    if (!(sum > 0)) continue;
    for (double& share : shares) share /= sum;
    const double loss = fit.predict(shares);
    found.emplace_back(loss, std::move(shares));
  }
  const auto kept = std::min(found.size(), static_cast<std::size_t>(search.best));
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(kept), found.end());
  std::vector<double> mean(domains);
  for (std::size_t i = 0; i < kept; ++i)
    for (std::size_t k = 0; k < domains; ++k) mean[k] += found[i].second[k] / static_cast<double>(kept);
  return mean;
}

}  // namespace moiety::engine
