// Experts that compute their own rows against the plain form, which computes everything: values and gradients.
#include "kernel/engine/layers/routed_feed_forward.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "kernel/engine/layers/feed_forward.h"
#include "kernel/engine/testing/tensors.h"

namespace moiety::engine {
namespace {

using testing::normal;

struct Case {
  std::int64_t rows, experts, each, width, k;
  bool biases = true, weighted = true;
};

/// Different experts a row, with an empty place here and there, and one row that names an expert twice.
at::Tensor choose(const Case& c) {
  at::Tensor chosen = at::empty({c.rows, c.k}, at::kLong);
  auto* place = chosen.data_ptr<std::int64_t>();
  Random random(7);
  for (std::int64_t r = 0; r < c.rows; ++r) {
    const std::int64_t first = random.below(c.experts);
    for (std::int64_t j = 0; j < c.k; ++j) place[r * c.k + j] = (first + j) % c.experts;
    if (r % 5 == 0) place[r * c.k] = -1;
  }
  if (c.k > 1) place[(c.rows - 1) * c.k] = place[(c.rows - 1) * c.k + 1];
  return chosen;
}

at::Tensor gate_of(const Case& c, const at::Tensor& chosen, const at::Tensor& weights) {
  return at::zeros({c.rows, c.experts + 1}, weights.options())
      .scatter_add(1, chosen.remainder(c.experts + 1), weights)
      .narrow(1, 0, c.experts);
}

struct Outcome {
  at::Tensor y;
  std::vector<at::Tensor> gradients;
};

Outcome outcome(const Case& c, bool routed) {
  const auto type = routed ? at::kFloat : at::kDouble;
  const auto leaf = [&](const at::Tensor& t) { return t.to(type).clone().requires_grad_(true); };
  at::Tensor x = leaf(normal({c.rows, c.width}, 1)), in = leaf(normal({c.experts, c.each, c.width}, 2)),
             in_bias = leaf(normal({c.experts, c.each}, 3)), out = leaf(normal({c.experts, c.width, c.each}, 4)),
             weights = leaf(c.weighted ? normal({c.rows, c.k}, 5) : at::ones({c.rows, c.k}));
  const at::Tensor chosen = choose(c), gate = gate_of(c, chosen, weights), bias = c.biases ? in_bias : at::Tensor();
  const auto flat = c.experts * c.each;
  const at::Tensor y = routed ? routed_feed_forward(x, {in, bias, out}, gate, chosen)
                              : plain_feed_forward(x,
                                                   {in.view({flat, c.width}), c.biases ? bias.view({flat}) : bias,
                                                    out.permute({1, 0, 2}).reshape({c.width, flat}), at::Tensor()},
                                                   gate);
  (y * normal({c.rows, c.width}, 6).to(type)).sum().backward();
  Outcome result{y.detach(), {x.grad(), in.grad(), out.grad(), weights.grad()}};
  if (c.biases) result.gradients.push_back(in_bias.grad());
  return result;
}

void expect_equal(const Case& c) {
  const Outcome fast = outcome(c, true), plain = outcome(c, false);
  EXPECT_LT((fast.y.to(at::kDouble) - plain.y).abs().max().item<double>(), 1e-4 * (1 + plain.y.abs().max().item<double>()));
  for (std::size_t i = 0; i < plain.gradients.size(); ++i) {
    const double scale = 1 + plain.gradients[i].abs().max().item<double>();
    EXPECT_LT((fast.gradients[i].to(at::kDouble) - plain.gradients[i]).abs().max().item<double>(), 3e-6 * scale)
        << "gradient " << i << " of " << c.rows << " rows, " << c.experts << " experts, k " << c.k;
  }
}

TEST(RoutedFeedForward, equals_the_plain_form) {
  for (const bool biases : {false, true})
    for (const bool weighted : {false, true}) {
      expect_equal({1, 4, 5, 6, 1, biases, weighted});
      expect_equal({150, 16, 32, 24, 8, biases, weighted});
      expect_equal({2300, 3, 7, 12, 2, biases, weighted});  // more than one group of rows, more than one product an expert
    }
}

TEST(RoutedFeedForward, an_expert_that_no_row_chose_gets_exactly_no_gradient_and_an_empty_batch_is_nothing) {
  const at::Tensor in = normal({4, 5, 6}, 1).requires_grad_(true), out = normal({4, 6, 5}, 2).requires_grad_(true);
  const at::Tensor chosen = at::full({9, 1}, 2, at::kLong);
  const at::Tensor gate = at::zeros({9, 4}).scatter(1, chosen, 1.0);
  routed_feed_forward(normal({9, 6}, 3), {in, at::Tensor(), out}, gate, chosen).sum().backward();
  for (const at::Tensor& gradient : {in.grad(), out.grad()})
    for (std::int64_t n = 0; n < 4; ++n) EXPECT_EQ(gradient[n].abs().max().item<double>() != 0, n == 2) << n;
  const at::Tensor nothing =
      routed_feed_forward(at::empty({0, 6}), {in, at::Tensor(), out}, at::empty({0, 4}), at::empty({0, 1}, at::kLong));
  EXPECT_EQ(nothing.size(0), 0);
}

TEST(RoutedFeedForward, equal_calls_give_equal_bits_with_two_threads) {
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  const Case c{700, 8, 16, 24, 3};
  const Outcome first = outcome(c, true), second = outcome(c, true);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(first.y, second.y));
  for (std::size_t i = 0; i < first.gradients.size(); ++i) EXPECT_TRUE(at::equal(first.gradients[i], second.gradients[i])) << i;
  expect_equal(c);
}

TEST(RoutedFeedForward, a_second_derivative_is_refused) {
  at::Tensor x = normal({4, 6}, 1).requires_grad_(true);
  const at::Tensor chosen = at::zeros({4, 1}, at::kLong);
  const at::Tensor gate = at::zeros({4, 3}).scatter(1, chosen, 1.0);
  const at::Tensor y = routed_feed_forward(x, {normal({3, 5, 6}, 2), at::Tensor(), normal({3, 6, 5}, 3)}, gate, chosen).sum();
  EXPECT_THROW(y.backward({}, true, true), c10::Error);
}

}  // namespace
}  // namespace moiety::engine
