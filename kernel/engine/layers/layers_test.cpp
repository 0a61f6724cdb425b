// The fast forms of the layers against the plain ones, values and gradients.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "kernel/engine/layers/attention.h"
#include "kernel/engine/layers/dropout.h"
#include "kernel/engine/layers/feed_forward.h"
#include "kernel/engine/layers/linear.h"
#include "kernel/engine/layers/norm.h"
#include "kernel/engine/layers/rotary.h"
#include "kernel/engine/testing/tensors.h"

namespace moiety::engine {
namespace {

using testing::normal;
using Inputs = std::vector<at::Tensor>;

/// Compares fast(float inputs) with plain(double inputs): the result and the gradient of a weighted sum in every input.
void expect_equal(const Inputs& inputs, const std::function<at::Tensor(const Inputs&)>& fast,
                  const std::function<at::Tensor(const Inputs&)>& plain) {
  Inputs floats, doubles;
  for (const auto& input : inputs) {
    floats.push_back(input.defined() ? input.to(at::kFloat).clone().requires_grad_(true) : input);
    doubles.push_back(input.defined() ? input.to(at::kDouble).clone().requires_grad_(true) : input);
  }
  const at::Tensor y = fast(floats), reference = plain(doubles);
  ASSERT_EQ(y.sizes(), reference.sizes());
  EXPECT_LT((y.to(at::kDouble) - reference).abs().max().item<double>(), 1e-4);
  {
    const at::NoGradGuard no_gradient;
    EXPECT_TRUE(at::equal(fast(floats), y.detach())) << "with and without a graph the same numbers";
  }
  const at::Tensor weights = normal(y.sizes().vec(), 99, at::kDouble);
  (y * weights.to(at::kFloat)).sum().backward();
  (reference * weights).sum().backward();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    const double scale = 1 + doubles[i].grad().abs().max().item<double>();
    EXPECT_LT((floats[i].grad().to(at::kDouble) - doubles[i].grad()).abs().max().item<double>(), 3e-6 * scale) << "input " << i;
  }
}

TEST(Layers, linear_equals_the_plain_form) {
  for (const std::int64_t rows : {1, 100, 300}) {
    const auto fast = [](const Inputs& in) { return linear(in[0], in[1], in[2]); };
    const auto plain = [](const Inputs& in) { return at::linear(in[0], in[1], in[2]); };
    expect_equal({normal({rows, 20}, 1), normal({33, 20}, 2), normal({33}, 3)}, fast, plain);
    expect_equal({normal({rows, 20}, 1), normal({33, 20}, 2), at::Tensor()}, fast, plain);
  }
}

TEST(Layers, feed_forward_equals_the_plain_form_dense_and_gated) {
  for (const Activation activation : {Activation::gelu, Activation::relu, Activation::swiglu}) {
    const std::int64_t entering = activation == Activation::swiglu ? 80 : 40;
    const auto with = [&](bool biases, std::int64_t experts, std::int64_t rows) {
      const Inputs inputs{normal({rows, 12}, 1),
                          normal({entering, 12}, 2) * (activation == Activation::swiglu ? 0.3 : 1.0),
                          biases ? normal({entering}, 3) : at::Tensor(),
                          normal({12, 40}, 4),
                          biases ? normal({12}, 5) : at::Tensor(),
                          experts > 0 ? normal({rows, experts}, 6) : at::Tensor()};
      const auto weights = [activation](const Inputs& in) { return FeedForwardWeights{in[1], in[2], in[3], in[4], activation}; };
      expect_equal(
          inputs, [&](const Inputs& in) { return feed_forward(in[0], weights(in), in[5]); },
          [&](const Inputs& in) { return plain_feed_forward(in[0], weights(in), in[5]); });
    };
    for (const bool biases : {false, true}) {
      with(biases, 0, 1);
      with(biases, 0, 150);
      with(biases, 5, 70);
      with(biases, 1, 3);
    }
  }
}

TEST(Layers, swiglu_is_silu_times_up) {
  const at::Tensor x = normal({3, 4}, 1, at::kDouble), in = normal({10, 4}, 2, at::kDouble), out = normal({4, 5}, 3, at::kDouble);
  const at::Tensor g = at::linear(x, in.narrow(0, 0, 5)), up = at::linear(x, in.narrow(0, 5, 5));
  const at::Tensor expected = at::linear(g / (1 + at::exp(-g)) * up, out);
  const at::Tensor y = feed_forward(x, {in, at::Tensor(), out, at::Tensor(), Activation::swiglu}, at::Tensor());
  EXPECT_LT((y - expected).abs().max().item<double>(), 1e-12);
}

TEST(Layers, rms_norm_equals_the_plain_form) {
  for (const std::int64_t rows : {1, 100})
    expect_equal(
        {normal({rows, 20}, 1), normal({20}, 2)}, [](const Inputs& in) { return rms_norm(in[0], in[1]); },
        [](const Inputs& in) { return plain_rms_norm(in[0], in[1]); });
}

TEST(Layers, rotary_equals_the_plain_form_and_leaves_other_columns_alone) {
  Spans spans;
  for (const std::int64_t length : {3, 1, 40}) spans.add(length);
  const at::Tensor positions = positions_of(spans);
  expect_equal(
      {normal({44, 30}, 1)}, [&](const Inputs& in) { return rotary(in[0], positions, 24, 8); },
      [&](const Inputs& in) { return plain_rotary(in[0], positions, 24, 8); });
  const at::Tensor x = normal({44, 30}, 1), y = rotary(x, positions, 24, 8);
  EXPECT_TRUE(at::equal(y.narrow(1, 24, 6), x.narrow(1, 24, 6)));
  EXPECT_TRUE(at::equal(y[3], x[3])) << "position 0 is not turned";
  // Position 2, first head: pair (1, 5) by 2 · 10000^(−1/4).
  const double angle = 2 * std::pow(10000.0, -0.25), a = x[2][1].item<double>(), b = x[2][5].item<double>();
  EXPECT_NEAR(y[2][1].item<double>(), a * std::cos(angle) - b * std::sin(angle), 1e-6);
  EXPECT_NEAR(y[2][5].item<double>(), b * std::cos(angle) + a * std::sin(angle), 1e-6);
}

// What makes positions relative: the product of a query and a key depends on how far they are apart.
TEST(Layers, rotary_products_depend_on_the_distance_alone) {
  const at::Tensor q = normal({1, 8}, 1, at::kDouble), k = normal({1, 8}, 2, at::kDouble);
  const auto product = [&](std::int64_t at_q, std::int64_t at_k) {
    return (rotary(q, at::tensor({at_q}, at::kLong), 8, 8) * rotary(k, at::tensor({at_k}, at::kLong), 8, 8)).sum().item<double>();
  };
  EXPECT_NEAR(product(7, 3), product(104, 100), 1e-9);
  EXPECT_GT(std::abs(product(7, 3) - product(7, 4)), 1e-6);
}

TEST(Layers, heads_of_queries_may_share_keys_and_values) {
  Spans spans;
  for (const std::int64_t length : {3, 1, 70}) spans.add(length);
  // Four heads of queries, two of keys: 4 · 4 + 2 · 2 · 4 columns.
  expect_equal(
      {normal({spans.rows(), 32}, 1)},
      [&](const Inputs& in) {
        return attention(in[0], spans, {4, 2});
      },
      [&](const Inputs& in) {
        return plain_attention(in[0], spans, {4, 2});
      });
  expect_equal(
      {normal({spans.count(), 16}, 1), normal({spans.rows(), 16}, 2)},
      [&](const Inputs& in) {
        return last_row_attention(in[0], in[1], spans, {4, 2});
      },
      [&](const Inputs& in) {
        return plain_last_row_attention(in[0], in[1], spans, {4, 2});
      });
  // Written out: every head its own copy.
  const at::Tensor qkv = normal({spans.rows(), 32}, 1, at::kDouble);
  const auto twice = [&](std::int64_t first) {
    return qkv.narrow(1, first, 8).reshape({spans.rows(), 2, 4}).repeat_interleave(2, 1).reshape({spans.rows(), 16});
  };
  const at::Tensor all = at::cat({qkv.narrow(1, 0, 16), twice(16), twice(24)}, 1);
  EXPECT_LT((attention(qkv, spans, {4, 2}) - attention(all, spans, {4, 4})).abs().max().item<double>(), 1e-12);
}

TEST(Layers, attention_equals_the_plain_form_for_packed_sequences) {
  Spans spans;
  for (const std::int64_t length : {3, 1, 70, 64, 130}) spans.add(length);
  expect_equal(
      {normal({spans.rows(), 24}, 1)},
      [&](const Inputs& in) {
        return attention(in[0], spans, {2, 2});
      },
      [&](const Inputs& in) {
        return plain_attention(in[0], spans, {2, 2});
      });
  expect_equal(
      {normal({spans.count(), 8}, 1), normal({spans.rows(), 16}, 2)},
      [&](const Inputs& in) {
        return last_row_attention(in[0], in[1], spans, {2, 2});
      },
      [&](const Inputs& in) {
        return plain_last_row_attention(in[0], in[1], spans, {2, 2});
      });
}

TEST(Layers, last_row_attention_is_the_last_row_of_attention) {
  Spans spans;
  for (const std::int64_t length : {3, 1, 70}) spans.add(length);
  const at::Tensor qkv = normal({spans.rows(), 24}, 1), last = at::tensor({2, 3, 73}, at::kLong);
  const at::Tensor all = attention(qkv, spans, {2, 2}).index_select(0, last);
  const at::Tensor only = last_row_attention(qkv.narrow(1, 0, 8).index_select(0, last), qkv.narrow(1, 8, 16), spans, {2, 2});
  EXPECT_LT((all - only).abs().max().item<double>(), 1e-5);
}

TEST(Layers, equal_calls_give_equal_bits_with_two_threads) {
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  const auto once = [] {
    at::Tensor x = normal({500, 64}, 1).requires_grad_(true), in = normal({128, 64}, 2).requires_grad_(true),
               out = normal({64, 128}, 3).requires_grad_(true);
    feed_forward(x, {in, at::Tensor(), out, at::Tensor()}, at::Tensor()).sum().backward();
    return std::vector<at::Tensor>{x.grad(), in.grad(), out.grad()};
  };
  const auto first = once(), second = once();
  at::set_num_threads(threads);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(at::equal(first[i], second[i]));
}

TEST(Layers, a_second_derivative_through_a_fast_form_is_refused) {
  at::Tensor x = normal({4, 6}, 1).requires_grad_(true);
  const at::Tensor w = normal({6, 6}, 2);
  const at::Tensor y = linear(x, w, at::Tensor()).sum();
  EXPECT_THROW(y.backward({}, true, true), c10::Error);
}

TEST(Layers, dropout_is_a_function_of_its_stream) {
  const at::Tensor x = at::ones({1000, 10});
  const at::Tensor a = dropout(x, 0.25, Random(1).fork("a")), again = dropout(x, 0.25, Random(1).fork("a")),
                   b = dropout(x, 0.25, Random(1).fork("b"));
  EXPECT_TRUE(at::equal(a, again));
  EXPECT_FALSE(at::equal(a, b));
  EXPECT_NEAR(a.mean().item<double>(), 1, 0.03);
  EXPECT_NEAR((a == 0).to(at::kDouble).mean().item<double>(), 0.25, 0.02);
  EXPECT_TRUE(at::equal(dropout(x, 0, Random(1)), x));
}

}  // namespace
}  // namespace moiety::engine
