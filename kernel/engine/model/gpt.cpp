#include "kernel/engine/model/gpt.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "kernel/engine/layers/attention.h"
#include "kernel/engine/layers/dropout.h"
#include "kernel/engine/layers/feed_forward.h"
#include "kernel/engine/layers/linear.h"
#include "kernel/engine/layers/norm.h"
#include "kernel/engine/layers/rotary.h"
#include "kernel/engine/numerics/cross_entropy.h"

namespace moiety::engine {
namespace {

at::Tensor last_rows(const Spans& spans) {
  at::Tensor rows = at::empty({spans.count()}, at::kLong);
  for (std::int64_t i = 0; i < spans.count(); ++i) rows.data_ptr<std::int64_t>()[i] = spans.begin(i) + spans.length(i) - 1;
  return rows;
}

constexpr double start_deviation = 0.02;

/// A tensor that may not have been declared.
at::Tensor tensor_of(const Weight& weight) { return weight ? *weight : at::Tensor(); }

at::Tensor plain_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return at::linear(x, weight, bias);
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
  auto& p = parameters_;
  tokens_ = p.declare("embedding.tokens", spec("", {a.vocabulary, a.width}).normal(start_deviation));
  if (a.position == Position::learned)
    positions_ = p.declare("embedding.positions", spec("", {a.context, a.width}).normal(start_deviation));
  for (std::int64_t i = 0; i < a.layers; ++i) layers_.push_back(declare_layer(i));
  final_norm_ = declare_norm("final_norm");
  if (a.read_out == ReadOut::untied)
    output_ = p.declare("read_out.tokens", spec("", {a.vocabulary, a.width}).normal(start_deviation));
  if (a.classes > 0) {
    head_ = p.declare("head.classes", spec("", {a.classes, a.width}).normal(start_deviation));
    head_bias_ = p.declare("head.classes_bias", spec("", {a.classes}).without_decay());
  }
  p.allocate();
}

Gpt::Layer Gpt::declare_layer(std::int64_t index) {
  const auto& a = architecture_;
  auto& p = parameters_;
  const std::string name = fmt::format("layer{}.", index);
  const bool parallel = a.block == BlockForm::parallel;
  const double residual_deviation = start_deviation / std::sqrt(2.0 * static_cast<double>(a.layers));
  Layer layer;
  layer.attention_norm = declare_norm(name + (parallel ? "norm" : "attention.norm"));
  if (ExpertSite* site = find_site(sites_, Place::attention, index)) {
    site->bind(p, site_prefix(Place::attention, index));
    layer.attention_site = site;
  } else {
    const std::int64_t rows = a.width + 2 * site_of(a, Place::attention, index).kv_width();
    layer.qkv = p.declare(name + "attention.qkv", spec("", {rows, a.width}).normal(start_deviation));
    if (a.biases) layer.qkv_bias = p.declare(name + "attention.qkv_bias", spec("", {rows}).without_decay());
    layer.output = p.declare(name + "attention.output", spec("", {a.width, a.width}).normal(residual_deviation));
    if (a.biases) layer.output_bias = p.declare(name + "attention.output_bias", spec("", {a.width}).without_decay());
  }
  layer.feed_forward_norm = parallel ? layer.attention_norm : declare_norm(name + "feed_forward.norm");
  if (ExpertSite* site = find_site(sites_, Place::feed_forward, index)) {
    site->bind(p, site_prefix(Place::feed_forward, index));
    layer.feed_forward_site = site;
    return layer;
  }
  const std::pair<const char*, Weight*> handles[] = {{"in", &layer.in},   {"in_bias", &layer.in_bias},
                                                     {"up", &layer.up},   {"up_bias", &layer.up_bias},
                                                     {"out", &layer.out}, {"out_bias", &layer.out_bias}};
  for (const Role& role : layer_roles(site_of(a, Place::feed_forward, index))) {
    Spec one = spec("", role.shape).normal(role.deviation);
    one.decays = !role.is_bias();
    for (const auto& [known, weight] : handles)
      if (role.name == known) *weight = p.declare(name + "feed_forward." + role.name, one);
  }
  return layer;
}

Gpt::Norm Gpt::declare_norm(const std::string& name) {
  Norm norm;
  norm.gain = parameters_.declare(name + ".gain", spec("", {architecture_.width}).filled(1).without_decay());
  if (architecture_.norm == NormKind::layer && architecture_.biases)
    norm.bias = parameters_.declare(name + ".bias", spec("", {architecture_.width}).without_decay());
  return norm;
}

at::Tensor Gpt::normalise(const at::Tensor& x, const Norm& norm, const ForwardContext& context) const {
  if (architecture_.norm == NormKind::rms) return context.twice ? plain_rms_norm(x, *norm.gain) : rms_norm(x, *norm.gain);
  return at::layer_norm(x, {architecture_.width}, *norm.gain, tensor_of(norm.bias));
}

at::Tensor Gpt::embed(const Batch& batch, ForwardContext& context) const {
  const Spans& spans = batch.spans;
  TORCH_CHECK(batch.tokens.dim() == 1 && batch.tokens.size(0) == spans.rows(), "tokens ", batch.tokens.sizes(), " for ",
              spans.rows(), " rows");
  for (std::int64_t i = 0; i < spans.count(); ++i)
    TORCH_CHECK(spans.length(i) >= 1 && spans.length(i) <= architecture_.context, "a sequence of ", spans.length(i),
                " tokens; the context is ", architecture_.context);
  parameters_.refresh();
  at::Tensor x = at::embedding(*tokens_, batch.tokens);
  if (positions_) x = x + at::embedding(*positions_, positions_of(spans));
  return dropout(x, context.training ? context.dropout : 0, context.random.fork("embedding"));
}

at::Tensor Gpt::attend(const at::Tensor& normal, const Layer& layer, std::int64_t index, const Spans& spans,
                       ForwardContext& context) const {
  if (context.watch) context.watch(Place::attention, index, normal);
  at::Tensor y;
  if (layer.attention_site != nullptr) {
    y = layer.attention_site->forward(normal, spans, context);
  } else {
    const auto through = context.twice ? &plain_linear : &linear;
    const at::Tensor qkv = through(normal, *layer.qkv, tensor_of(layer.qkv_bias));
    y = through(self_attention(qkv, spans, attention_form(), context.twice), *layer.output, tensor_of(layer.output_bias));
  }
  return dropout(y, context.training ? context.dropout : 0,
                 context.random.fork("attention").fork(static_cast<std::uint64_t>(index)));
}

at::Tensor Gpt::attend_last(const at::Tensor& normal, const Layer& layer, std::int64_t index, const Spans& spans,
                            const at::Tensor& last, ForwardContext& context) const {
  const AttentionForm form = attention_form();
  const std::int64_t d = architecture_.width, rest = layer.qkv->size(0) - d, head_width = d / form.heads.queries;
  const auto part = [](const at::Tensor& all, std::int64_t first, std::int64_t rows) {
    return all.defined() ? all.narrow(0, first, rows) : all;
  };
  const at::Tensor bias = tensor_of(layer.qkv_bias);
  at::Tensor queries = linear(normal.index_select(0, last), part(*layer.qkv, 0, d), part(bias, 0, d));
  at::Tensor kv = linear(normal, part(*layer.qkv, d, rest), part(bias, d, rest));
  if (form.rotary) {
    const at::Tensor positions = positions_of(spans);
    queries = rotary(queries, positions.index_select(0, last), d, head_width);
    kv = rotary(kv, positions, rest / 2, head_width);
  }
  const at::Tensor y = linear(last_row_attention(queries, kv, spans, form.heads), *layer.output, tensor_of(layer.output_bias));
  return dropout(y, context.training ? context.dropout : 0,
                 context.random.fork("attention").fork(static_cast<std::uint64_t>(index)));
}

at::Tensor Gpt::think(const at::Tensor& normal, const Layer& layer, std::int64_t index, const Spans& spans,
                      ForwardContext& context) const {
  if (context.watch) context.watch(Place::feed_forward, index, normal);
  at::Tensor y;
  if (layer.feed_forward_site != nullptr) {
    y = layer.feed_forward_site->forward(normal, spans, context);
  } else {
    const at::Tensor in_bias = tensor_of(layer.in_bias), up_bias = tensor_of(layer.up_bias);
    const FeedForwardWeights weights{with_up(*layer.in, tensor_of(layer.up), 0),
                                     in_bias.defined() ? with_up(in_bias, up_bias, 0) : in_bias, *layer.out,
                                     tensor_of(layer.out_bias), architecture_.activation};
    at::Tensor units;
    if (context.training && context.unit_dropout > 0)
      units = dropout(at::ones({normal.size(0), architecture_.inner}, normal.options()), context.unit_dropout,
                      context.random.fork("units").fork(static_cast<std::uint64_t>(index)));
    y = context.twice ? plain_feed_forward(normal, weights, units) : feed_forward(normal, weights, units);
  }
  return dropout(y, context.training ? context.dropout : 0,
                 context.random.fork("feed_forward").fork(static_cast<std::uint64_t>(index)));
}

at::Tensor Gpt::block(const at::Tensor& x, std::int64_t index, const Spans& spans, ForwardContext& context) const {
  const Layer& layer = layers_[static_cast<std::size_t>(index)];
  const at::Tensor normal = normalise(x, layer.attention_norm, context);
  const at::Tensor attended = attend(normal, layer, index, spans, context);
  if (architecture_.block == BlockForm::parallel) return x + attended + think(normal, layer, index, spans, context);
  const at::Tensor y = x + attended;
  return y + think(normalise(y, layer.feed_forward_norm, context), layer, index, spans, context);
}

at::Tensor Gpt::hidden(const Batch& batch, ForwardContext& context) const {
  at::Tensor x = embed(batch, context);
  for (std::int64_t i = 0; i < architecture_.layers; ++i) x = block(x, i, batch.spans, context);
  return normalise(x, final_norm_, context);
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
  for (std::int64_t i = 0; i < final_layer; ++i) x = block(x, i, batch.spans, context);
  const Layer& layer = layers_.back();
  const at::Tensor normal = normalise(x, layer.attention_norm, context);
  const at::Tensor attended = attend_last(normal, layer, final_layer, batch.spans, last, context);
  const at::Tensor y = x.index_select(0, last) + attended;
  const at::Tensor enters =
      architecture_.block == BlockForm::parallel ? normal.index_select(0, last) : normalise(y, layer.feed_forward_norm, context);
  return normalise(y + think(enters, layer, final_layer, one_row_each(batch.spans), context), final_norm_, context);
}

at::Tensor Gpt::read_out(const at::Tensor& hidden, bool twice) const {
  return twice ? at::linear(hidden, table()) : linear(hidden, table(), at::Tensor());
}

at::Tensor Gpt::read_out_loss(const at::Tensor& hidden, const at::Tensor& targets, bool twice) const {
  return twice ? plain_cross_entropy(hidden, table(), targets) : cross_entropy(hidden, table(), targets);
}

at::Tensor Gpt::read_out_losses(const at::Tensor& hidden, const at::Tensor& targets) const {
  return token_losses(hidden, table(), targets);
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
