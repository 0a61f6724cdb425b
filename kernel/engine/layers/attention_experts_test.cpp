// Attention experts against a loop over experts of the plain attention, and the identities that BAM's construction promises.
#include "kernel/engine/layers/attention_experts.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernel/engine/layers/attention.h"
#include "kernel/engine/testing/tensors.h"

namespace moiety::engine {
namespace {

using testing::normal;

constexpr std::int64_t d = 8, heads = 2, m = 3;
constexpr AttentionForm form{{heads, heads}};

Spans some_spans() {
  Spans spans;
  for (const std::int64_t length : {5, 1, 7}) spans.add(length);
  return spans;
}

AttentionExpertWeights some_weights(at::ScalarType type, bool shared, std::uint64_t seed) {
  const std::int64_t kv = shared ? 1 : m;
  const auto matrix = [&](std::int64_t n, std::uint64_t number) { return normal({n, d, d}, seed + number, type) * 0.4; };
  const auto bias = [&](std::int64_t n, std::uint64_t number) { return normal({n, d}, seed + number, type) * 0.4; };
  return {matrix(m, 1), bias(m, 2), matrix(kv, 3), bias(kv, 4), matrix(kv, 5), bias(kv, 6), matrix(m, 7), bias(m, 8)};
}

/// Expert by expert: a dense attention each, its output weighted by the row's gate.
at::Tensor loop(const at::Tensor& x, const Spans& spans, const AttentionExpertWeights& w, const at::Tensor& gate) {
  at::Tensor sum = at::zeros_like(x);
  for (std::int64_t n = 0; n < m; ++n) {
    const std::int64_t kv = w.k.size(0) == 1 ? 0 : n;
    const at::Tensor qkv = at::cat(
        {at::linear(x, w.q[n], w.q_bias[n]), at::linear(x, w.k[kv], w.k_bias[kv]), at::linear(x, w.v[kv], w.v_bias[kv])}, 1);
    const at::Tensor y = at::linear(plain_attention(qkv, spans, {heads, heads}), w.o[n], w.o_bias[n]);
    sum = sum + (gate.defined() ? y * gate.select(1, n).unsqueeze(1) : y);
  }
  return sum;
}

TEST(AttentionExperts, are_a_weighted_sum_of_dense_attentions) {
  const Spans spans = some_spans();
  const at::Tensor x = normal({spans.rows(), d}, 1, at::kDouble), gate = normal({spans.rows(), m}, 2, at::kDouble).softmax(1);
  for (const bool shared : {false, true}) {
    const AttentionExpertWeights w = some_weights(at::kDouble, shared, 10);
    for (const auto& g : {gate, at::Tensor()})
      EXPECT_LT((attention_experts(x, spans, form, w, g, false) - loop(x, spans, w, g)).abs().max().item<double>(), 1e-12);
  }
}

TEST(AttentionExperts, equal_experts_with_gates_that_sum_to_1_are_the_dense_attention) {
  const Spans spans = some_spans();
  const at::Tensor x = normal({spans.rows(), d}, 1, at::kDouble), gate = normal({spans.rows(), m}, 2, at::kDouble).softmax(1);
  const AttentionExpertWeights w = some_weights(at::kDouble, false, 10);
  const auto same = [](const at::Tensor& t, std::int64_t n) {
    std::vector<std::int64_t> shape = t.sizes().vec();
    shape[0] = n;
    return t.narrow(0, 0, 1).expand(shape).contiguous();
  };
  const at::Tensor one_gate = at::ones({spans.rows(), 1}, x.options());
  const AttentionExpertWeights one{same(w.q, 1), same(w.q_bias, 1), same(w.k, 1), same(w.k_bias, 1),
                                   same(w.v, 1), same(w.v_bias, 1), same(w.o, 1), same(w.o_bias, 1)};
  const at::Tensor dense = attention_experts(x, spans, form, one, one_gate, true);
  for (const std::int64_t kv : {std::int64_t{1}, m}) {
    const AttentionExpertWeights copies{same(w.q, m),  same(w.q_bias, m),  same(w.k, kv), same(w.k_bias, kv),
                                        same(w.v, kv), same(w.v_bias, kv), same(w.o, m),  same(w.o_bias, m)};
    EXPECT_LT((attention_experts(x, spans, form, copies, gate, false) - dense).abs().max().item<double>(), 1e-12);
  }
}

TEST(AttentionExperts, fast_form_and_its_gradients_agree_with_the_plain_one_in_double) {
  const Spans spans = some_spans();
  for (const bool shared : {false, true}) {
    const auto run = [&](at::ScalarType type, bool plain) {
      AttentionExpertWeights w = some_weights(type, shared, 20);
      at::Tensor x = normal({spans.rows(), d}, 3, type), gate = normal({spans.rows(), m}, 4, type).softmax(1);
      std::vector<at::Tensor> leaves{x, gate, w.q, w.q_bias, w.k, w.k_bias, w.v, w.v_bias, w.o, w.o_bias};
      for (at::Tensor& leaf : leaves) leaf.requires_grad_();
      const at::Tensor y = attention_experts(x, spans, form, w, gate, plain);
      (y * normal({spans.rows(), d}, 5, type)).sum().backward();
      std::vector<at::Tensor> list{y.detach().to(at::kDouble)};
      for (const at::Tensor& leaf : leaves) list.push_back(leaf.grad().to(at::kDouble));
      return list;
    };
    const auto fast = run(at::kFloat, false), exact = run(at::kDouble, true);
    for (std::size_t i = 0; i < fast.size(); ++i)
      EXPECT_LT((fast[i] - exact[i]).abs().max().item<double>(), 2e-5 * (1 + exact[i].abs().max().item<double>())) << i;
  }
}

TEST(AttentionExperts, whole_sequences_that_run_one_expert_each_are_the_same_with_a_gate_of_0_and_1) {
  const Spans spans = some_spans();
  const at::Tensor x = normal({spans.rows(), d}, 1, at::kDouble);
  const std::vector<std::int64_t> choice{2, -1, 0};
  at::Tensor gate = at::zeros({spans.rows(), m}, x.options());
  for (std::int64_t i = 0; i < spans.count(); ++i)
    if (choice[static_cast<std::size_t>(i)] >= 0)
      gate.narrow(0, spans.begin(i), spans.length(i)).select(1, choice[static_cast<std::size_t>(i)]).fill_(0.7);
  for (const bool shared : {false, true}) {
    const AttentionExpertWeights w = some_weights(at::kDouble, shared, 10);
    EXPECT_LT(
        (sequence_attention_experts(x, spans, form, w, choice, gate, false) - loop(x, spans, w, gate)).abs().max().item<double>(),
        1e-12);
  }
}

}  // namespace
}  // namespace moiety::engine
