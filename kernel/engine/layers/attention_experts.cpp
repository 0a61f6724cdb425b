#include "kernel/engine/layers/attention_experts.h"

#include <ATen/ATen.h>

#include "kernel/engine/layers/attention.h"
#include "kernel/engine/layers/linear.h"

namespace moiety::engine {
namespace {

/// x through the matrices of m experts at once: [R, m · d].
at::Tensor through(const at::Tensor& x, const at::Tensor& matrices, const at::Tensor& biases, bool plain) {
  const at::Tensor weight = matrices.reshape({-1, x.size(1)});
  const at::Tensor bias = biases.defined() ? biases.reshape({-1}) : at::Tensor();
  return plain ? at::linear(x, weight, bias) : linear(x, weight, bias);
}

at::Tensor one_of(const at::Tensor& all, std::int64_t expert) {
  if (!all.defined()) return all;
  return all.narrow(0, all.size(0) == 1 ? 0 : expert, 1);
}

}  // namespace

at::Tensor attention_experts(const at::Tensor& x, const Spans& spans, const AttentionForm& form, const AttentionExpertWeights& w,
                             const at::Tensor& gate, bool plain) {
  const std::int64_t rows = x.size(0), d = x.size(1), m = w.q.size(0);
  const auto for_all = [&](const at::Tensor& part, const at::Tensor& matrices) {
    return matrices.size(0) == m ? part : part.repeat({1, m});
  };
  const at::Tensor qkv = at::cat({through(x, w.q, w.q_bias, plain), for_all(through(x, w.k, w.k_bias, plain), w.k),
                                  for_all(through(x, w.v, w.v_bias, plain), w.v)},
                                 1);
  const AttentionForm of_all{{m * form.heads.queries, m * form.heads.keys}, form.rotary};
  at::Tensor mixed = self_attention(qkv, spans, of_all, plain);
  if (gate.defined()) mixed = (mixed.view({rows, m, d}) * gate.unsqueeze(2)).view({rows, m * d});
  const at::Tensor output = w.o.permute({1, 0, 2}).reshape({d, m * d});
  at::Tensor y = plain ? at::linear(mixed, output) : linear(mixed, output, at::Tensor());
  if (!w.o_bias.defined()) return y;
  if (w.o_bias.size(0) == 1 && m > 1) return y + w.o_bias.view({d});
  return gate.defined() ? y + gate.matmul(w.o_bias) : y + w.o_bias.sum(0);
}

at::Tensor sequence_attention_experts(const at::Tensor& x, const Spans& spans, const AttentionForm& form,
                                      const AttentionExpertWeights& w, const std::vector<std::int64_t>& choice,
                                      const at::Tensor& gate, bool plain) {
  const std::int64_t m = w.q.size(0), d = x.size(1);
  std::vector<at::Tensor> parts;
  at::Tensor back = at::empty({spans.rows()}, at::kLong);  // where each row of x stands in the parts
  auto* place = back.data_ptr<std::int64_t>();
  std::int64_t next = 0;
  const bool shared_bias = w.o_bias.defined() && w.o_bias.size(0) == 1 && m > 1;  // added once, whatever the gate
  for (std::int64_t expert = -1; expert < m; ++expert) {
    Spans own;
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < spans.count(); ++i) {
      if (choice[static_cast<std::size_t>(i)] != expert) continue;
      own.add(spans.length(i));
      for (std::int64_t r = spans.begin(i); r < spans.begin(i) + spans.length(i); ++r) {
        rows.push_back(r);
        place[r] = next++;
      }
    }
    if (rows.empty()) continue;
    if (expert < 0) {
      parts.push_back(at::zeros({own.rows(), d}, x.options()));
      continue;
    }
    const at::Tensor which = at::tensor(rows, at::kLong);
    const AttentionExpertWeights of_one{one_of(w.q, expert), one_of(w.q_bias, expert),
                                        one_of(w.k, expert), one_of(w.k_bias, expert),
                                        one_of(w.v, expert), one_of(w.v_bias, expert),
                                        one_of(w.o, expert), shared_bias ? at::Tensor() : one_of(w.o_bias, expert)};
    parts.push_back(attention_experts(x.index_select(0, which), own, form, of_one,
                                      gate.defined() ? gate.index_select(0, which).narrow(1, expert, 1) : at::Tensor(), plain));
  }
  const at::Tensor y = at::cat(parts).index_select(0, back);
  return shared_bias ? y + w.o_bias.view({d}) : y;
}

}  // namespace moiety::engine
