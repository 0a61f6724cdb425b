// Rotary positions: Su et al., "RoFormer", 2021, equation 34; pairs are (i, i + c/2), as in Llama.
#ifndef MOIETY_KERNEL_ENGINE_LAYERS_ROTARY_H_
#define MOIETY_KERNEL_ENGINE_LAYERS_ROTARY_H_

#include <ATen/core/Tensor.h>

#include "kernel/engine/layers/spans.h"

namespace moiety::engine {

/// Where each row stands in its sequence: [R] int64, from 0.
at::Tensor positions_of(const Spans& spans);

/// x [R, n], its first `columns` numbers being heads of width c; each pair (i, i + c/2) of a head is turned by the angle
/// position · 10000^(−2i/c), the other columns stay. c is even. Floats: one node, in one pass; other types: plain_rotary().
at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, std::int64_t columns, std::int64_t head_width);

/// The plain reference, of ATen's own functions.
at::Tensor plain_rotary(const at::Tensor& x, const at::Tensor& positions, std::int64_t columns, std::int64_t head_width);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_LAYERS_ROTARY_H_
