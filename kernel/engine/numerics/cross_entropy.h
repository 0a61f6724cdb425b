// Cross-entropy of a linear read-out over a vocabulary, made in blocks of rows: all logits at once never exist.
#ifndef MOIETY_KERNEL_ENGINE_NUMERICS_CROSS_ENTROPY_H_
#define MOIETY_KERNEL_ENGINE_NUMERICS_CROSS_ENTROPY_H_

#include <ATen/core/Tensor.h>

namespace moiety::engine {

/// Mean over rows of −log softmax(hidden tableᵀ)[target]: hidden [R, d], table [V, d], targets [R] int64 → 0-d.
/// Differentiable in hidden and table. Floats go the blocked way, other types the plain one.
at::Tensor cross_entropy(const at::Tensor& hidden, const at::Tensor& table, const at::Tensor& targets);

/// The same for each row, without gradient: [R].
at::Tensor token_losses(const at::Tensor& hidden, const at::Tensor& table, const at::Tensor& targets);

/// The plain reference: all logits, ATen's own functions.
at::Tensor plain_cross_entropy(const at::Tensor& hidden, const at::Tensor& table, const at::Tensor& targets);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_NUMERICS_CROSS_ENTROPY_H_
