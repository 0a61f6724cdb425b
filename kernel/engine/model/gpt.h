// A causal transformer with a norm before each part: GPT-2 (Radford et al., 2019) with LayerNorm, learned positions, GELU and a
// read-out tied to the token table; by its options also what Llama and GPT-J changed of it. Attentions and feed-forwards are
// dense or of experts.
//
// Or the whole of it is an expert: several models of one shape, of which a sequence runs the one that its label names.
//
//   sequential  x ← x + A(norm(x)), x ← x + F(norm'(x))        parallel  n = norm(x), x ← x + A(n) + F(n)
#ifndef MOIETY_KERNEL_ENGINE_MODEL_GPT_H_
#define MOIETY_KERNEL_ENGINE_MODEL_GPT_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "kernel/engine/layers/attention.h"
#include "kernel/engine/layers/expert_site.h"
#include "kernel/engine/layers/forward_context.h"
#include "kernel/engine/layers/parameters.h"
#include "kernel/engine/layers/spans.h"
#include "kernel/engine/model/architecture.h"

namespace moiety::engine {

/// Sequences packed one after another: tokens [R] int64, without padding, so that no row is computed for nothing.
struct Batch {
  at::Tensor tokens;
  Spans spans;
};

class Gpt {
 public:
  /// Declares all tensors and makes them, zero. A layer's attention or feed-forward without a site is dense. With a site of
  /// whole models there is no other; their tensors are called "expert0.…" and so on.
  Gpt(const Architecture& architecture, Sites sites, at::ScalarType type = at::kFloat);

  /// GPT-2's start: normal(0.02), projections into the residual stream divided by √(2·layers), biases 0, gains 1.
  void initialise(const Random& random) { parameters_.initialise(random); }

  /// What leaves the last LayerNorm: [R, d]. Of whole models, context.expert_of_row tells which one each row is of: the read-out
  /// needs it.
  at::Tensor hidden(const Batch& batch, ForwardContext& context) const;
  /// The same for the last row of each sequence: [B, d]. The last block computes no other row, unless its router has losses to
  /// train on.
  at::Tensor last_hidden(const Batch& batch, ForwardContext& context) const;

  /// Mean cross-entropy of targets [R] int64, without auxiliary losses: 0-d.
  at::Tensor language_loss(const Batch& batch, const at::Tensor& targets, ForwardContext& context) const;
  /// The loss of each row, without gradient: [R].
  at::Tensor language_losses(const Batch& batch, const at::Tensor& targets, ForwardContext& context) const;
  /// Read-out of what hidden() gave, or of some rows of it: [R, vocabulary]. `twice`: to be differentiated twice.
  at::Tensor read_out(const at::Tensor& hidden, const at::Tensor& expert_of_row, bool twice = false) const;
  /// And its mean cross-entropy: 0-d.
  at::Tensor read_out_loss(const at::Tensor& hidden, const at::Tensor& targets, const at::Tensor& expert_of_row,
                           bool twice = false) const;
  /// The loss of each row, without gradient: [R].
  at::Tensor read_out_losses(const at::Tensor& hidden, const at::Tensor& targets, const at::Tensor& expert_of_row) const;
  /// Read-out of the last row of each sequence: [B, classes].
  at::Tensor class_logits(const Batch& batch, ForwardContext& context) const;

  const Architecture& architecture() const { return architecture_; }
  ParameterStore& parameters() { return parameters_; }
  const ParameterStore& parameters() const { return parameters_; }
  const Sites& sites() const { return sites_; }
  Sites& sites() { return sites_; }
  const ExpertSite* site(Place place, std::int64_t layer) const { return find_site(sites_, place, layer); }

 private:
  struct Norm {
    Weight gain, bias;  ///< a bias may not exist, here and below
  };
  struct Layer {
    Norm attention_norm, feed_forward_norm;  ///< of a parallel block the same
    Weight qkv, qkv_bias, output, output_bias;
    Weight in, in_bias, up, up_bias, out, out_bias;  ///< of a dense feed-forward
    const ExpertSite *attention_site = nullptr, *feed_forward_site = nullptr;
  };
  /// The tensors of one model.
  struct Body {
    Weight tokens, positions, output, head, head_bias;
    std::vector<Layer> layers;
    Norm final_norm;
    const at::Tensor& table() const { return *(output ? output : tokens); }  ///< of the read-out
  };
  Body declare_body(const std::string& prefix);
  Norm declare_norm(const std::string& name);
  Layer declare_layer(const std::string& prefix, std::int64_t index);
  at::Tensor normalise(const at::Tensor& x, const Norm& norm, const ForwardContext& context) const;
  at::Tensor embed(const Body& body, const Batch& batch, ForwardContext& context) const;
  /// What a layer's attention makes of normed rows, and its feed-forward; both after dropout.
  at::Tensor attend(const at::Tensor& normal, const Layer& layer, std::int64_t index, const Spans& spans,
                    ForwardContext& context) const;
  at::Tensor attend_last(const at::Tensor& normal, const Layer& layer, std::int64_t index, const Spans& spans,
                         const at::Tensor& last, ForwardContext& context) const;
  at::Tensor think(const at::Tensor& normal, const Layer& layer, std::int64_t index, const Spans& spans,
                   ForwardContext& context) const;
  at::Tensor block(const Body& body, const at::Tensor& x, std::int64_t index, const Spans& spans, ForwardContext& context) const;
  at::Tensor hidden_of(const Body& body, const Batch& batch, ForwardContext& context) const;
  at::Tensor last_hidden_of(const Body& body, const Batch& batch, ForwardContext& context) const;
  /// Rows of each model of the sequences that are its own, in the order of the batch.
  using Pass = at::Tensor (Gpt::*)(const Body& body, const Batch& batch, ForwardContext& context) const;
  at::Tensor by_expert(const Batch& batch, ForwardContext& context, Pass pass, bool a_row_each) const;
  /// What `of` gives for the rows of each model, put together again. `expert_of_row` undefined: one model has all.
  at::Tensor of_rows(const at::Tensor& expert_of_row,
                     const std::function<at::Tensor(const Body& body, const at::Tensor& rows)>& of) const;
  AttentionForm attention_form() const { return form_of(site_of(architecture_, Place::attention, 0)); }

  Architecture architecture_;
  Sites sites_;
  ParameterStore parameters_;
  std::vector<Body> bodies_;  // several: of whole_
  const ExpertSite* whole_ = nullptr;
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_MODEL_GPT_H_
