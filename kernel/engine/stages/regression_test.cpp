#include "kernel/engine/stages/regression.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "kernel/engine/testing/tensors.h"

namespace moiety::engine {
namespace {

/// Shares of `n` runs over three domains.
at::Tensor random_shares(std::int64_t n) { return (testing::normal({n, 3}, 4, at::kDouble)).softmax(1); }

TEST(Regression, a_linear_loss_is_found_and_runs_left_out_are_predicted) {
  const at::Tensor shares = random_shares(20), slope = at::tensor(std::vector<double>{1.0, -2.0, 0.5}, at::kDouble);
  const at::Tensor losses = shares.matmul(slope) + 3;
  const RidgeFit fit = fit_ridge(shares, losses, 1e-9);
  const auto left_out = left_out_predictions(shares, losses, 1e-9);
  std::vector<double> exact(losses.data_ptr<double>(), losses.data_ptr<double>() + 20);
  for (std::int64_t i = 0; i < 20; ++i) {
    const at::Tensor row = shares[i].contiguous();
    EXPECT_NEAR(fit.predict({row.data_ptr<double>(), row.data_ptr<double>() + 3}), exact[static_cast<std::size_t>(i)], 1e-6);
    EXPECT_NEAR(left_out[static_cast<std::size_t>(i)], exact[static_cast<std::size_t>(i)], 1e-5);
  }
  EXPECT_DOUBLE_EQ(rank_correlation(left_out, exact), 1);
}

TEST(Regression, a_penalty_shrinks) {
  const at::Tensor shares = random_shares(20), losses = shares.select(1, 0).contiguous();
  const double free = fit_ridge(shares, losses, 1e-9).slope.norm().item<double>(),
               held = fit_ridge(shares, losses, 10).slope.norm().item<double>();
  EXPECT_LT(held, 0.1 * free);
}

TEST(Regression, ranks) {
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3}, {30, 20, 10}), -1);
  EXPECT_DOUBLE_EQ(rank_correlation({1, 1, 1}, {3, 2, 1}), 0);
  EXPECT_NEAR(rank_correlation({1, 2, 2, 3}, {1, 2, 3, 4}), 0.9486832980505138, 1e-12);
}

TEST(Regression, the_best_mixture_leans_to_the_domain_that_helps) {
  RidgeFit fit;
  fit.centre = at::tensor(std::vector<double>{0.5, 0.3, 0.2, 0}, at::kDouble);
  fit.slope = at::tensor(std::vector<double>{0.0, 0.0, -1.0, -9.0}, at::kDouble);
  const auto mixture = best_mixture(fit, {20000, 50, 4}, Random(1));
  EXPECT_NEAR(std::accumulate(mixture.begin(), mixture.end(), 0.0), 1, 1e-12);
  EXPECT_GT(mixture[2], 0.8);
  EXPECT_EQ(mixture[3], 0) << "no run had it";
  EXPECT_EQ(mixture, best_mixture(fit, {20000, 50, 4}, Random(1))) << "the same for the same stream";
  // Without anything to choose by, the mean of random mixtures: their centre.
  fit.slope.zero_();
  const auto even = best_mixture(fit, {20000, 20000, 4}, Random(1));
  for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(even[k], fit.centre.data_ptr<double>()[k], 0.01);
}

}  // namespace
}  // namespace moiety::engine
