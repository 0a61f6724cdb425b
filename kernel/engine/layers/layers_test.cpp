// The fast forms of the layers against the plain ones, values and gradients.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "kernel/engine/layers/attention.h"
#include "kernel/engine/layers/dropout.h"
#include "kernel/engine/layers/feed_forward.h"
#include "kernel/engine/layers/linear.h"
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
  const auto with = [](bool biases, std::int64_t experts, std::int64_t rows) {
    const Inputs inputs{normal({rows, 12}, 1),
                        normal({40, 12}, 2),
                        biases ? normal({40}, 3) : at::Tensor(),
                        normal({12, 40}, 4),
                        biases ? normal({12}, 5) : at::Tensor(),
                        experts > 0 ? normal({rows, experts}, 6) : at::Tensor()};
    expect_equal(
        inputs,
        [](const Inputs& in) {
          return feed_forward(in[0], {in[1], in[2], in[3], in[4]}, in[5]);
        },
        [](const Inputs& in) {
          return plain_feed_forward(in[0], {in[1], in[2], in[3], in[4]}, in[5]);
        });
  };
  for (const bool biases : {false, true}) {
    with(biases, 0, 1);
    with(biases, 0, 150);
    with(biases, 5, 70);
    with(biases, 1, 3);
  }
}

TEST(Layers, attention_equals_the_plain_form_for_packed_sequences) {
  Spans spans;
  for (const std::int64_t length : {3, 1, 70, 64, 130}) spans.add(length);
  expect_equal(
      {normal({spans.rows(), 24}, 1)}, [&](const Inputs& in) { return attention(in[0], spans, 2); },
      [&](const Inputs& in) { return plain_attention(in[0], spans, 2); });
  expect_equal(
      {normal({spans.count(), 8}, 1), normal({spans.rows(), 16}, 2)},
      [&](const Inputs& in) { return last_row_attention(in[0], in[1], spans, 2); },
      [&](const Inputs& in) { return plain_last_row_attention(in[0], in[1], spans, 2); });
}

TEST(Layers, last_row_attention_is_the_last_row_of_attention) {
  Spans spans;
  for (const std::int64_t length : {3, 1, 70}) spans.add(length);
  const at::Tensor qkv = normal({spans.rows(), 24}, 1), last = at::tensor({2, 3, 73}, at::kLong);
  const at::Tensor all = attention(qkv, spans, 2).index_select(0, last);
  const at::Tensor only = last_row_attention(qkv.narrow(1, 0, 8).index_select(0, last), qkv.narrow(1, 8, 16), spans, 2);
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
