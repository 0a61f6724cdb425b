#include "kernel/engine/layers/attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "kernel/engine/layers/rotary.h"
#include "kernel/engine/numerics/clones.h"
#include "kernel/engine/numerics/exponential.h"
#include "kernel/engine/numerics/lanes.h"
#include "kernel/engine/numerics/matrix.h"

namespace moiety::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::int64_t block = 64;  // rows that share one product: what they cannot see, up to a block, is made and thrown away

/// Softmax of a row's first `visible` scores, the rest of `size` is 0.
MOIETY_CLONES void softmax_row(float* scores, std::int64_t visible, std::int64_t size) {
  float top = scores[0];
#pragma omp simd reduction(max : top)
  for (std::int64_t i = 0; i < visible; ++i) top = scores[i] > top ? scores[i] : top;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < visible; ++i) {
    scores[i] = fast_exp(scores[i] - top);
    sum += scores[i];
  }
  const float factor = 1.0F / sum;
  for (std::int64_t i = 0; i < visible; ++i) scores[i] *= factor;
  for (std::int64_t i = visible; i < size; ++i) scores[i] = 0;
}

/// d_scores = p ⊙ (d_p − Σ d_p p), in place of d_p.
MOIETY_CLONES void softmax_row_backward(const float* p, float* gradient, std::int64_t size) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < size; ++i) sum += p[i] * gradient[i];
  for (std::int64_t i = 0; i < size; ++i) gradient[i] = p[i] * (gradient[i] - sum);
}

/// Queries and the rows they look at; where one head's part of a row begins is added to the pointers.
struct Geometry {
  Heads heads;
  std::int64_t head_width, query_stride, kv_stride;
  bool last_only;

  std::int64_t width() const { return heads.queries * head_width; }
  std::int64_t kv_width() const { return heads.keys * head_width; }
  std::int64_t group() const { return heads.queries / heads.keys; }  ///< heads of queries that share keys and values

  std::int64_t queries(const Spans& spans, std::int64_t i) const {
    return last_only ? std::min<std::int64_t>(1, spans.length(i)) : spans.length(i);
  }
  std::int64_t first_query(const Spans& spans, std::int64_t i) const { return last_only ? i : spans.begin(i); }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(head_width)); }
  /// Where the probabilities of (sequence i, head 0) begin, and their number at the end.
  std::vector<std::int64_t> offsets(const Spans& spans) const {
    std::vector<std::int64_t> list{0};
    for (std::int64_t i = 0; i < spans.count(); ++i)
      list.push_back(list.back() + heads.queries * queries(spans, i) * spans.length(i));
    return list;
  }
};

/// Pointers to a matrix's first column of queries, of keys and of values.
template <class Float>
struct Parts {
  Float *q, *k, *v;
};

/// qkv rows in one matrix.
Geometry packed(const at::Tensor& qkv, Heads heads) {
  return {heads, qkv.size(1) / (heads.queries + 2 * heads.keys), qkv.size(1), qkv.size(1), false};
}
/// Queries of last rows apart from keys and values.
Geometry apart(const at::Tensor& queries, const at::Tensor& kv, Heads heads) {
  return {heads, queries.size(1) / heads.queries, queries.size(1), kv.size(1), true};
}

template <class Float>
Parts<Float> parts_of(const Geometry& g, Float* qkv) {
  return {qkv, qkv + g.width(), qkv + g.width() + g.kv_width()};
}
template <class Float>
Parts<Float> parts_of(const Geometry& g, Float* queries, Float* kv) {
  return {queries, kv, kv + g.kv_width()};
}

/// body(lane, sequence, head of keys).
template <class Body>
void for_each_head(const Geometry& g, const Spans& spans, const Body& body) {
  const std::int64_t items = spans.count() * g.heads.keys;
  in_lanes(items, lanes_for(items), [&](std::int64_t lane, std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) body(lane, item / g.heads.keys, item % g.heads.keys);
  });
}

/// `kept` receives the probabilities when it is not null.
void run(const Geometry& g, const Spans& spans, Parts<const float> from, float* out, float* kept) {
  const auto offsets = g.offsets(spans);
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < spans.count(); ++i) longest = std::max(longest, spans.length(i));
  const std::int64_t width = g.width(), c = g.head_width, lanes = lanes_for(spans.count() * g.heads.keys);
  const Scratch scratch(kept == nullptr ? lanes * std::min(block, longest) * longest : 0);
  for_each_head(g, spans, [&](std::int64_t lane, std::int64_t i, std::int64_t key_head) {
    const std::int64_t nq = g.queries(spans, i), nk = spans.length(i), q0 = g.first_query(spans, i), k0 = spans.begin(i);
    const float *k = from.k + k0 * g.kv_stride + key_head * c, *v = from.v + k0 * g.kv_stride + key_head * c;
    for (std::int64_t head = key_head * g.group(); head < (key_head + 1) * g.group(); ++head) {
      for (std::int64_t r0 = 0; r0 < nq; r0 += block) {
        const std::int64_t rows = std::min(block, nq - r0), seen = nk - nq + r0 + rows;
        const float* q = from.q + (q0 + r0) * g.query_stride + head * c;
        float* p = kept != nullptr ? kept + offsets[static_cast<std::size_t>(i)] + (head * nq + r0) * nk
                                   : scratch.data() + lane * std::min(block, longest) * longest;
        product(Form::plain, Form::transposed, rows, seen, c, {q, g.query_stride}, {k, g.kv_stride}, {p, nk}, 0, g.scale());
        for (std::int64_t r = 0; r < rows; ++r) softmax_row(p + r * nk, nk - nq + r0 + r + 1, seen);
        product(Form::plain, Form::plain, rows, c, seen, {p, nk}, {v, g.kv_stride}, {out + (q0 + r0) * width + head * c, width});
      }
    }
  });
}

/// `to` is overwritten everywhere but where no sequence stands.
void run_backward(const Geometry& g, const Spans& spans, Parts<const float> from, const float* kept, const float* d_out,
                  Parts<float> to) {
  const auto offsets = g.offsets(spans);
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < spans.count(); ++i) longest = std::max(longest, spans.length(i));
  const std::int64_t width = g.width(), c = g.head_width, size = std::min(block, longest) * longest;
  const Scratch scratch(lanes_for(spans.count() * g.heads.keys) * size);
  for_each_head(g, spans, [&](std::int64_t lane, std::int64_t i, std::int64_t key_head) {
    const std::int64_t nq = g.queries(spans, i), nk = spans.length(i), q0 = g.first_query(spans, i), k0 = spans.begin(i);
    const std::int64_t at_kv = k0 * g.kv_stride + key_head * c;
    float* gradient = scratch.data() + lane * size;
    for (std::int64_t head = key_head * g.group(); head < (key_head + 1) * g.group(); ++head) {
      // From the last block on: it sees every key, so the first head's products write where the others add.
      for (std::int64_t r0 = (nq - 1) / block * block; r0 >= 0 && nq > 0; r0 -= block) {
        const std::int64_t rows = std::min(block, nq - r0), seen = nk - nq + r0 + rows,
                           at_q = (q0 + r0) * g.query_stride + head * c;
        const float keep = r0 + rows == nq && head == key_head * g.group() ? 0.0F : 1.0F;
        const float* p = kept + offsets[static_cast<std::size_t>(i)] + (head * nq + r0) * nk;
        const float* d = d_out + (q0 + r0) * width + head * c;
        product(Form::plain, Form::transposed, rows, seen, c, {d, width}, {from.v + at_kv, g.kv_stride}, {gradient, nk});
        product(Form::transposed, Form::plain, seen, c, rows, {p, nk}, {d, width}, {to.v + at_kv, g.kv_stride}, keep);
        for (std::int64_t r = 0; r < rows; ++r) softmax_row_backward(p + r * nk, gradient + r * nk, seen);
        product(Form::plain, Form::plain, rows, c, seen, {gradient, nk}, {from.k + at_kv, g.kv_stride},
                {to.q + at_q, g.query_stride}, 0, g.scale());
        product(Form::transposed, Form::plain, seen, c, rows, {gradient, nk}, {from.q + at_q, g.query_stride},
                {to.k + at_kv, g.kv_stride}, keep, g.scale());
      }
    }
  });
}

void save_heads(AutogradContext* context, const Spans& spans, Heads heads) {
  context->saved_data["queries"] = heads.queries;
  context->saved_data["keys"] = heads.keys;
  context->saved_data["starts"] = c10::List<std::int64_t>(spans.starts);
}
Heads saved_heads(AutogradContext* context) {
  return {context->saved_data["queries"].toInt(), context->saved_data["keys"].toInt()};
}

class FullNode : public Function<FullNode> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, const std::shared_ptr<const Spans>& spans,
                            Heads heads) {
    const Geometry g = packed(qkv, heads);
    const at::Tensor out = at::empty({qkv.size(0), g.width()}, qkv.options()),
                     kept = at::empty({g.offsets(*spans).back()}, qkv.options());
    run(g, *spans, parts_of<const float>(g, qkv.data_ptr<float>()), out.data_ptr<float>(), kept.data_ptr<float>());
    context->save_for_backward({qkv, kept});
    save_heads(context, *spans, heads);
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "this attention cannot be differentiated twice; use plain_attention");
    const auto saved = context->get_saved_variables();
    const at::Tensor &qkv = saved[0], d = gradients[0].contiguous();
    const Spans spans{context->saved_data["starts"].toIntVector()};
    const Geometry g = packed(qkv, saved_heads(context));
    at::Tensor out = at::empty_like(qkv);
    run_backward(g, spans, parts_of<const float>(g, qkv.data_ptr<float>()), saved[1].data_ptr<float>(), d.data_ptr<float>(),
                 parts_of<float>(g, out.data_ptr<float>()));
    return {out, at::Tensor(), at::Tensor()};
  }
};

class LastRowNode : public Function<LastRowNode> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& queries, const at::Tensor& kv,
                            const std::shared_ptr<const Spans>& spans, Heads heads) {
    const Geometry g = apart(queries, kv, heads);
    const at::Tensor out = at::empty_like(queries), kept = at::empty({g.offsets(*spans).back()}, queries.options());
    run(g, *spans, parts_of<const float>(g, queries.data_ptr<float>(), kv.data_ptr<float>()), out.data_ptr<float>(),
        kept.data_ptr<float>());
    context->save_for_backward({queries, kv, kept});
    save_heads(context, *spans, heads);
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "this attention cannot be differentiated twice; use plain_last_row_attention");
    const auto saved = context->get_saved_variables();
    const at::Tensor &queries = saved[0], &kv = saved[1], d = gradients[0].contiguous();
    const Spans spans{context->saved_data["starts"].toIntVector()};
    const Geometry g = apart(queries, kv, saved_heads(context));
    at::Tensor d_queries = at::empty_like(queries), d_kv = at::empty_like(kv);
    run_backward(g, spans, parts_of<const float>(g, queries.data_ptr<float>(), kv.data_ptr<float>()), saved[2].data_ptr<float>(),
                 d.data_ptr<float>(), parts_of<float>(g, d_queries.data_ptr<float>(), d_kv.data_ptr<float>()));
    return {d_queries, d_kv, at::Tensor(), at::Tensor()};
  }
};

/// q [nq, h·c], k and v [nk, g·c] of one sequence.
at::Tensor plain_sequence(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, Heads heads) {
  const std::int64_t nq = q.size(0), nk = k.size(0), c = q.size(1) / heads.queries;
  const auto by_head = [&](const at::Tensor& t) {
    const at::Tensor own = t.reshape({t.size(0), t.size(1) / c, c}).transpose(0, 1);
    return own.size(0) == heads.queries ? own : own.repeat_interleave(heads.queries / heads.keys, 0);
  };
  const at::Tensor hidden = at::ones({nq, nk}, q.options().dtype(at::kBool)).triu(nk - nq + 1);
  const at::Tensor scores = at::matmul(by_head(q), by_head(k).transpose(1, 2)) / std::sqrt(static_cast<double>(c));
  const at::Tensor p = at::softmax(scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()), 2);
  return at::matmul(p, by_head(v)).transpose(0, 1).reshape({nq, q.size(1)});
}

}  // namespace

at::Tensor plain_attention(const at::Tensor& qkv, const Spans& spans, Heads heads) {
  const Geometry g = packed(qkv, heads);
  std::vector<at::Tensor> parts;
  for (std::int64_t i = 0; i < spans.count(); ++i) {
    const at::Tensor rows = qkv.narrow(0, spans.begin(i), spans.length(i));
    parts.push_back(plain_sequence(rows.narrow(1, 0, g.width()), rows.narrow(1, g.width(), g.kv_width()),
                                   rows.narrow(1, g.width() + g.kv_width(), g.kv_width()), heads));
  }
  return at::cat(parts);
}

at::Tensor plain_last_row_attention(const at::Tensor& queries, const at::Tensor& kv, const Spans& spans, Heads heads) {
  const std::int64_t width = kv.size(1) / 2;
  std::vector<at::Tensor> parts;
  for (std::int64_t i = 0; i < spans.count(); ++i) {
    const at::Tensor rows = kv.narrow(0, spans.begin(i), spans.length(i));
    parts.push_back(plain_sequence(queries.narrow(0, i, 1), rows.narrow(1, 0, width), rows.narrow(1, width, width), heads));
  }
  return at::cat(parts);
}

at::Tensor attention(const at::Tensor& qkv, const Spans& spans, Heads heads) {
  TORCH_CHECK(qkv.dim() == 2 && qkv.size(0) == spans.rows() && heads.queries % heads.keys == 0 &&
                  qkv.size(1) % (heads.queries + 2 * heads.keys) == 0,
              "attention: qkv ", qkv.sizes());
  if (qkv.scalar_type() != at::kFloat) return plain_attention(qkv, spans, heads);
  const at::Tensor x = qkv.contiguous();
  if (at::GradMode::is_enabled()) return FullNode::apply(x, std::make_shared<const Spans>(spans), heads);
  const Geometry g = packed(x, heads);
  const at::Tensor out = at::empty({x.size(0), g.width()}, x.options());
  run(g, spans, parts_of<const float>(g, x.data_ptr<float>()), out.data_ptr<float>(), nullptr);
  return out;
}

at::Tensor self_attention(const at::Tensor& qkv, const Spans& spans, const AttentionForm& form, bool plain) {
  const Heads heads = form.heads;
  const std::int64_t head_width = qkv.size(1) / (heads.queries + 2 * heads.keys);
  at::Tensor x = qkv;
  if (form.rotary) {
    const auto turn = plain ? &plain_rotary : &rotary;
    x = turn(qkv, positions_of(spans), (heads.queries + heads.keys) * head_width, head_width);
  }
  return plain ? plain_attention(x, spans, heads) : attention(x, spans, heads);
}

at::Tensor last_row_attention(const at::Tensor& queries, const at::Tensor& kv, const Spans& spans, Heads heads) {
  TORCH_CHECK(queries.dim() == 2 && kv.dim() == 2 && queries.size(0) == spans.count() && kv.size(0) == spans.rows() &&
                  heads.queries % heads.keys == 0 && queries.size(1) % heads.queries == 0 &&
                  kv.size(1) == 2 * queries.size(1) / heads.queries * heads.keys,
              "attention: queries ", queries.sizes(), ", keys and values ", kv.sizes());
  if (kv.scalar_type() != at::kFloat) return plain_last_row_attention(queries, kv, spans, heads);
  const at::Tensor q = queries.contiguous(), x = kv.contiguous();
  if (at::GradMode::is_enabled()) return LastRowNode::apply(q, x, std::make_shared<const Spans>(spans), heads);
  const Geometry g = apart(q, x, heads);
  const at::Tensor out = at::empty_like(q);
  run(g, spans, parts_of<const float>(g, q.data_ptr<float>(), x.data_ptr<float>()), out.data_ptr<float>(), nullptr);
  return out;
}

}  // namespace moiety::engine
