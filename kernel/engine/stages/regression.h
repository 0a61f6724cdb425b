// From the losses of small runs on many mixtures to a mixture: Liu et al., "RegMix: data mixture as regression for language model
// pre-training" (2024), with a linear model.
//
//   loss ≈ ȳ + (x − x̄)·w,   w = (XᵀX / n + λ I)⁻¹ Xᵀy / n of centred shares and losses
//   answer: the mean of those of many random mixtures around x̄ whose loss is predicted lowest
#ifndef MOIETY_KERNEL_ENGINE_STAGES_REGRESSION_H_
#define MOIETY_KERNEL_ENGINE_STAGES_REGRESSION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "moiety/random.h"

namespace moiety::engine {

struct RidgeFit {
  at::Tensor centre, slope;  ///< [K] double
  double mean = 0;
  double predict(const std::vector<double>& shares) const;
};
/// shares [n, K], losses [n], double.
RidgeFit fit_ridge(const at::Tensor& shares, const at::Tensor& losses, double penalty);

/// What each run's loss is predicted to be by a fit to all others: [n].
std::vector<double> left_out_predictions(const at::Tensor& shares, const at::Tensor& losses, double penalty);
/// Rank correlation; equal numbers share their ranks. 0 where one side is constant.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

struct Search {
  std::int64_t samples = 100000, best = 100;
  double concentration = 4;  ///< of the Dirichlet distribution around the centre; small: far from it
};
/// Shares that add up to 1. A domain that no run had stays at 0.
std::vector<double> best_mixture(const RidgeFit& fit, const Search& search, Random random);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_REGRESSION_H_
