// Causal attention over packed sequences.
#ifndef MOIETY_KERNEL_ENGINE_LAYERS_ATTENTION_H_
#define MOIETY_KERNEL_ENGINE_LAYERS_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include "kernel/engine/layers/spans.h"

namespace moiety::engine {

/// qkv [R, 3d]: queries, keys and values of every row, each divided into `heads` → [R, d]. A row sees itself and what stands
/// before it in its own sequence. Scores are scaled by 1/√(d/heads). Floats: one node that never makes scores of rows a row
/// cannot see, up to a block.
at::Tensor attention(const at::Tensor& qkv, const Spans& spans, std::int64_t heads);

/// Only the last row of each sequence asks: queries [B, d], keys and values [R, 2d] → [B, d].
at::Tensor last_row_attention(const at::Tensor& queries, const at::Tensor& kv, const Spans& spans, std::int64_t heads);

/// The plain references.
at::Tensor plain_attention(const at::Tensor& qkv, const Spans& spans, std::int64_t heads);
at::Tensor plain_last_row_attention(const at::Tensor& queries, const at::Tensor& kv, const Spans& spans, std::int64_t heads);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_LAYERS_ATTENTION_H_
