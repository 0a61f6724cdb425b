#include "kernel/engine/model/gpt.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "kernel/engine/layers/attention.h"
#include "kernel/engine/layers/dropout.h"
#include "kernel/engine/layers/feed_forward.h"
#include "kernel/engine/layers/linear.h"
#include "kernel/engine/numerics/cross_entropy.h"

namespace moiety::engine {
namespace {

at::Tensor last_rows(const Spans& spans) {
  at::Tensor rows = at::empty({spans.count()}, at::kLong);
  for (std::int64_t i = 0; i < spans.count(); ++i) rows.data_ptr<std::int64_t>()[i] = spans.begin(i) + spans.length(i) - 1;
  return rows;
}

Spans one_row_each(const Spans& spans) {
  Spans single;
  for (std::int64_t i = 0; i < spans.count(); ++i) single.add(1);
  return single;
}

}  // namespace

Gpt::Gpt(const Architecture& architecture, Sites sites, at::ScalarType type)
    : architecture_(architecture), sites_(std::move(sites)), parameters_(type) {
  const auto& a = architecture_;
  if (const std::string problem = a.problem(); !problem.empty()) throw std::invalid_argument(problem);
  const double sd = 0.02, residual_sd = 0.02 / std::sqrt(2.0 * static_cast<double>(a.layers));
  auto& p = parameters_;
  tokens_ = p.declare("embedding.tokens", spec("", {a.vocabulary, a.width}).normal(sd));
  positions_ = p.declare("embedding.positions", spec("", {a.context, a.width}).normal(sd));
  for (std::int64_t i = 0; i < a.layers; ++i) {
    const std::string name = fmt::format("layer{}.", i);
    Layer layer;
    layer.attention_norm = declare_norm(name + "attention.norm");
    if (ExpertSite* site = find_site(sites_, Place::attention, i)) {
      site->bind(p, site_prefix(Place::attention, i));
      layer.attention_site = site;
    } else {
      layer.qkv = p.declare(name + "attention.qkv", spec("", {3 * a.width, a.width}).normal(sd));
      layer.qkv_bias = p.declare(name + "attention.qkv_bias", spec("", {3 * a.width}).without_decay());
      layer.output = p.declare(name + "attention.output", spec("", {a.width, a.width}).normal(residual_sd));
      layer.output_bias = p.declare(name + "attention.output_bias", spec("", {a.width}).without_decay());
    }
    layer.feed_forward_norm = declare_norm(name + "feed_forward.norm");
    if (ExpertSite* site = find_site(sites_, Place::feed_forward, i)) {
      site->bind(p, site_prefix(Place::feed_forward, i));
      layer.feed_forward_site = site;
    } else {
      layer.in = p.declare(name + "feed_forward.in", spec("", {a.inner, a.width}).normal(sd));
      layer.in_bias = p.declare(name + "feed_forward.in_bias", spec("", {a.inner}).without_decay());
      layer.out = p.declare(name + "feed_forward.out", spec("", {a.width, a.inner}).normal(residual_sd));
      layer.out_bias = p.declare(name + "feed_forward.out_bias", spec("", {a.width}).without_decay());
    }
    layers_.push_back(layer);
  }
  final_norm_ = declare_norm("final_norm");
  if (a.classes > 0) {
    head_ = p.declare("head.classes", spec("", {a.classes, a.width}).normal(sd));
    head_bias_ = p.declare("head.classes_bias", spec("", {a.classes}).without_decay());
  }
  p.allocate();
}

Gpt::Norm Gpt::declare_norm(const std::string& name) {
  return {parameters_.declare(name + ".gain", spec("", {architecture_.width}).filled(1).without_decay()),
          parameters_.declare(name + ".bias", spec("", {architecture_.width}).without_decay())};
}

at::Tensor Gpt::normalise(const at::Tensor& x, const Norm& norm) const {
  return at::layer_norm(x, {architecture_.width}, *norm.gain, *norm.bias);
}

at::Tensor Gpt::embed(const Batch& batch, ForwardContext& context) const {
  const Spans& spans = batch.spans;
  TORCH_CHECK(batch.tokens.dim() == 1 && batch.tokens.size(0) == spans.rows(), "tokens ", batch.tokens.sizes(), " for ",
              spans.rows(), " rows");
  at::Tensor places = at::empty({spans.rows()}, at::kLong);
  auto* place = places.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < spans.count(); ++i) {
    TORCH_CHECK(spans.length(i) >= 1 && spans.length(i) <= architecture_.context, "a sequence of ", spans.length(i),
                " tokens; the context is ", architecture_.context);
    for (std::int64_t r = 0; r < spans.length(i); ++r) place[spans.begin(i) + r] = r;
  }
  const at::Tensor x = at::embedding(*tokens_, batch.tokens) + at::embedding(*positions_, places);
  return dropout(x, context.training ? context.dropout : 0, context.random.fork("embedding"));
}

at::Tensor Gpt::attend(const at::Tensor& x, const Layer& layer, std::int64_t index, const Spans& spans,
                       ForwardContext& context) const {
  const at::Tensor normal = normalise(x, layer.attention_norm);
  if (context.watch) context.watch(Place::attention, index, normal);
  at::Tensor y;
  if (layer.attention_site != nullptr) {
    y = layer.attention_site->forward(normal, spans, context);
  } else if (context.twice) {
    const at::Tensor qkv = at::linear(normal, *layer.qkv, *layer.qkv_bias);
    y = at::linear(plain_attention(qkv, spans, architecture_.heads), *layer.output, *layer.output_bias);
  } else {
    const at::Tensor qkv = linear(normal, *layer.qkv, *layer.qkv_bias);
    y = linear(attention(qkv, spans, architecture_.heads), *layer.output, *layer.output_bias);
  }
  return x + dropout(y, context.training ? context.dropout : 0,
                     context.random.fork("attention").fork(static_cast<std::uint64_t>(index)));
}

at::Tensor Gpt::attend_last(const at::Tensor& x, const Layer& layer, std::int64_t index, const Spans& spans,
                            const at::Tensor& last, ForwardContext& context) const {
  const std::int64_t d = architecture_.width;
  const at::Tensor normal = normalise(x, layer.attention_norm);
  const at::Tensor queries = linear(normal.index_select(0, last), layer.qkv->narrow(0, 0, d), layer.qkv_bias->narrow(0, 0, d));
  const at::Tensor kv = linear(normal, layer.qkv->narrow(0, d, 2 * d), layer.qkv_bias->narrow(0, d, 2 * d));
  const at::Tensor y = linear(last_row_attention(queries, kv, spans, architecture_.heads), *layer.output, *layer.output_bias);
  return x.index_select(0, last) + dropout(y, context.training ? context.dropout : 0,
                                           context.random.fork("attention").fork(static_cast<std::uint64_t>(index)));
}

at::Tensor Gpt::think(const at::Tensor& x, const Layer& layer, std::int64_t index, const Spans& spans,
                      ForwardContext& context) const {
  const at::Tensor normal = normalise(x, layer.feed_forward_norm);
  if (context.watch) context.watch(Place::feed_forward, index, normal);
  at::Tensor y;
  if (layer.feed_forward_site != nullptr) {
    y = layer.feed_forward_site->forward(normal, spans, context);
  } else {
    const FeedForwardWeights weights{*layer.in, *layer.in_bias, *layer.out, *layer.out_bias};
    y = context.twice ? plain_feed_forward(normal, weights, at::Tensor()) : feed_forward(normal, weights, at::Tensor());
  }
  return x + dropout(y, context.training ? context.dropout : 0,
                     context.random.fork("feed_forward").fork(static_cast<std::uint64_t>(index)));
}

at::Tensor Gpt::hidden(const Batch& batch, ForwardContext& context) const {
  at::Tensor x = embed(batch, context);
  for (std::int64_t i = 0; i < architecture_.layers; ++i) {
    const Layer& layer = layers_[static_cast<std::size_t>(i)];
    x = think(attend(x, layer, i, batch.spans, context), layer, i, batch.spans, context);
  }
  return normalise(x, final_norm_);
}

at::Tensor Gpt::last_hidden(const Batch& batch, ForwardContext& context) const {
  const at::Tensor last = last_rows(batch.spans);
  const ExpertSite* last_site = layers_.back().feed_forward_site;
  const bool needs_all_rows =
      layers_.back().attention_site != nullptr || context.twice || context.watch ||
      (last_site != nullptr && (last_site->by_sequence() || (context.training && last_site->has_losses())));
  if (needs_all_rows) return hidden(batch, context).index_select(0, last);
  at::Tensor x = embed(batch, context);
  const std::int64_t final_layer = architecture_.layers - 1;
  for (std::int64_t i = 0; i < final_layer; ++i) {
    const Layer& layer = layers_[static_cast<std::size_t>(i)];
    x = think(attend(x, layer, i, batch.spans, context), layer, i, batch.spans, context);
  }
  const Layer& layer = layers_.back();
  x = attend_last(x, layer, final_layer, batch.spans, last, context);
  return normalise(think(x, layer, final_layer, one_row_each(batch.spans), context), final_norm_);
}

at::Tensor Gpt::read_out(const at::Tensor& hidden, bool twice) const {
  return twice ? at::linear(hidden, *tokens_) : linear(hidden, *tokens_, at::Tensor());
}

at::Tensor Gpt::read_out_loss(const at::Tensor& hidden, const at::Tensor& targets, bool twice) const {
  return twice ? plain_cross_entropy(hidden, *tokens_, targets) : cross_entropy(hidden, *tokens_, targets);
}

at::Tensor Gpt::read_out_losses(const at::Tensor& hidden, const at::Tensor& targets) const {
  return token_losses(hidden, *tokens_, targets);
}

at::Tensor Gpt::language_loss(const Batch& batch, const at::Tensor& targets, ForwardContext& context) const {
  return read_out_loss(hidden(batch, context), targets, context.twice);
}

at::Tensor Gpt::language_losses(const Batch& batch, const at::Tensor& targets, ForwardContext& context) const {
  const at::NoGradGuard no_gradient;
  return read_out_losses(hidden(batch, context), targets);
}

at::Tensor Gpt::class_logits(const Batch& batch, ForwardContext& context) const {
  return linear(last_hidden(batch, context), *head_, *head_bias_);
}

}  // namespace moiety::engine
