#include "kernel/engine/numerics/cross_entropy.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernel/engine/testing/tensors.h"

namespace moiety::engine {
namespace {

using testing::normal;

TEST(CrossEntropy, blocked_form_equals_the_plain_one) {
  for (const std::int64_t rows : {1, 63, 64, 200}) {
    at::Tensor hidden = normal({rows, 24}, 1).requires_grad_(true), table = normal({321, 24}, 2).requires_grad_(true);
    const at::Tensor targets = testing::indices({rows}, 321, 3);
    cross_entropy(hidden, table, targets).mul(3.0).backward();
    const at::Tensor dh = hidden.grad().to(at::kDouble), dt = table.grad().to(at::kDouble);
    at::Tensor h = hidden.detach().to(at::kDouble).requires_grad_(true), t = table.detach().to(at::kDouble).requires_grad_(true);
    const at::Tensor plain = plain_cross_entropy(h, t, targets);
    plain.mul(3.0).backward();
    EXPECT_NEAR(cross_entropy(hidden, table, targets).item<double>(), plain.item<double>(), 2e-6 * plain.item<double>());
    EXPECT_LT((dh - h.grad()).abs().max().item<double>(), 3e-6 * h.grad().abs().max().item<double>() + 1e-6);
    EXPECT_LT((dt - t.grad()).abs().max().item<double>(), 3e-6 * t.grad().abs().max().item<double>() + 1e-6);
    EXPECT_LT((token_losses(hidden, table, targets).to(at::kDouble) - token_losses(h, t, targets)).abs().max().item<double>(),
              3e-5);
  }
}

TEST(CrossEntropy, huge_logits_stay_finite_and_nan_is_told) {
  const at::Tensor hidden = normal({5, 8}, 1) * 1e4, table = normal({50, 8}, 2), targets = testing::indices({5}, 50, 3);
  EXPECT_TRUE(at::isfinite(token_losses(hidden, table, targets)).all().item<bool>());
  at::Tensor broken = hidden.clone();
  broken[2][3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(at::isnan(cross_entropy(broken, table, targets)).item<bool>());
}

TEST(CrossEntropy, refuses_a_target_outside_the_vocabulary_and_a_second_derivative) {
  at::Tensor hidden = normal({2, 8}, 1).requires_grad_(true);
  const at::Tensor table = normal({50, 8}, 2);
  EXPECT_THROW(cross_entropy(hidden, table, at::full({2}, 50, at::kLong)), c10::Error);
  EXPECT_THROW(cross_entropy(hidden, table, at::full({2}, -1, at::kLong)), c10::Error);
}

}  // namespace
}  // namespace moiety::engine
