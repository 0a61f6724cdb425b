// Causal attention over packed sequences.
#ifndef MOIETY_KERNEL_ENGINE_LAYERS_ATTENTION_H_
#define MOIETY_KERNEL_ENGINE_LAYERS_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include "kernel/engine/layers/spans.h"
#include "moiety/site.h"

namespace moiety::engine {

/// How a row is divided: h heads of queries, c = d / h numbers wide, and g of keys and values. Each of these serves h / g
/// heads of queries that follow one another (Ainslie et al., "GQA", 2023); g = h: every head has its own.
struct Heads {
  std::int64_t queries, keys;
};

/// What attention is beside its matrices.
struct AttentionForm {
  Heads heads;
  bool rotary = false;  ///< positions turn queries and keys (rotary.h)
};
inline AttentionForm form_of(const Site& site) {
  return {{site.heads, site.kv_heads > 0 ? site.kv_heads : site.heads}, site.rotary};
}

/// qkv [R, (h + 2g)·c] → [R, d]: attention(), after the turn by positions where the form has it. `plain`: of functions that can
/// be differentiated twice.
at::Tensor self_attention(const at::Tensor& qkv, const Spans& spans, const AttentionForm& form, bool plain);

/// qkv [R, (h + 2g)·c]: queries, keys and values of every row → [R, d]. A row sees itself and what stands before it in its own
/// sequence. Scores are scaled by 1/√c. Floats: one node that never makes scores of rows a row cannot see, up to a block.
at::Tensor attention(const at::Tensor& qkv, const Spans& spans, Heads heads);

/// Only the last row of each sequence asks: queries [B, d], keys and values [R, 2gc] → [B, d].
at::Tensor last_row_attention(const at::Tensor& queries, const at::Tensor& kv, const Spans& spans, Heads heads);

/// The plain references.
at::Tensor plain_attention(const at::Tensor& qkv, const Spans& spans, Heads heads);
at::Tensor plain_last_row_attention(const at::Tensor& queries, const at::Tensor& kv, const Spans& spans, Heads heads);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_LAYERS_ATTENTION_H_
