// The position-wise network y = (gate ⊙ f(x Inᵀ + b)) Outᵀ + c, dense or of experts; f is GELU, ReLU or SwiGLU (Shazeer, "GLU
// Variants Improve Transformer", 2020).
#ifndef MOIETY_KERNEL_ENGINE_LAYERS_FEED_FORWARD_H_
#define MOIETY_KERNEL_ENGINE_LAYERS_FEED_FORWARD_H_

#include <ATen/core/Tensor.h>

#include "moiety/site.h"

namespace moiety::engine {

struct FeedForwardWeights {
  at::Tensor in, in_bias, out, out_bias;     ///< [F, d], [F], [d, F], [d]; biases may be undefined
  Activation activation = Activation::gelu;  ///< gated: `in` [2F, d] is the rows of `in`, then those of `up`; its bias likewise
};

/// The neurons of rows [R, F or 2F], of ATen's own functions.
at::Tensor plain_activation(Activation activation, const at::Tensor& before);
/// `in` and `up` as one tensor along `dimension` where neurons are gated; `in` else.
at::Tensor with_up(const at::Tensor& in, const at::Tensor& up, std::int64_t dimension);

/// x [R, d] → [R, d]. With `gate` [R, N], F = N·s, the neurons [n·s, (n + 1)·s) of row r are multiplied by gate[r, n] after the
/// activation: the exact form of a site of N experts, whichever of them a row runs. A gate of 0 gives an expert exactly no
/// gradient from that row. Floats: one node, in blocks of rows that stay in the cache. Other types: plain_feed_forward().
at::Tensor feed_forward(const at::Tensor& x, const FeedForwardWeights& weights, const at::Tensor& gate);

/// The plain reference, of ATen's own functions.
at::Tensor plain_feed_forward(const at::Tensor& x, const FeedForwardWeights& weights, const at::Tensor& gate);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_LAYERS_FEED_FORWARD_H_
