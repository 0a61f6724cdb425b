// Attention made of experts, each a whole attention: Zhang et al., BAM, NeurIPS 2024, section 3; CSE's MoA.
#ifndef MOIETY_KERNEL_ENGINE_LAYERS_ATTENTION_EXPERTS_H_
#define MOIETY_KERNEL_ENGINE_LAYERS_ATTENTION_EXPERTS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernel/engine/layers/attention.h"
#include "kernel/engine/layers/spans.h"

namespace moiety::engine {

/// q, o [m, d, d], k, v [m or 1, kv_width, d] (1: all experts share them), biases of the same first dimension or undefined.
struct AttentionExpertWeights {
  at::Tensor q, q_bias, k, k_bias, v, v_bias, o, o_bias;
};

/// y[r] = Σ_j gate[r, j] · MHA_j(x)[r]; x [R, d] → [R, d], `gate` [R, m] or undefined (1 everywhere). The row that asks is
/// weighted; keys and values of every expert are computed for every row, since a later row may ask any expert. Experts are so
/// many further heads of one attention. `plain`: of functions that can be differentiated twice.
at::Tensor attention_experts(const at::Tensor& x, const Spans& spans, const AttentionForm& form,
                             const AttentionExpertWeights& weights, const at::Tensor& gate, bool plain);

/// Whole sequences run one expert each: sequence i that of number `choice`[i], −1: none, its rows are 0. Costs what a dense
/// attention costs.
at::Tensor sequence_attention_experts(const at::Tensor& x, const Spans& spans, const AttentionForm& form,
                                      const AttentionExpertWeights& weights, const std::vector<std::int64_t>& choice,
                                      const at::Tensor& gate, bool plain);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_LAYERS_ATTENTION_EXPERTS_H_
