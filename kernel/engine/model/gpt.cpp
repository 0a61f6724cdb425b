#include "kernel/engine/model/gpt.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
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

/// Which rows of a batch the sequences of one model have, and what it is told of them.
struct Share {
  Batch batch;
  ForwardContext context;
  std::vector<std::int64_t> rows, sequences;
};

at::Tensor chosen(const at::Tensor& of_sequences, const at::Tensor& sequences) {
  return of_sequences.defined() ? of_sequences.index_select(0, sequences) : of_sequences;
}

/// By model, those alone that have a sequence.
std::map<std::int64_t, Share> shares_of(const Batch& batch, const at::Tensor& experts, const ForwardContext& context) {
  std::map<std::int64_t, Share> shares;
  for (std::int64_t i = 0; i < batch.spans.count(); ++i) {
    Share& share = shares[experts.data_ptr<std::int64_t>()[i]];
    share.sequences.push_back(i);
    share.batch.spans.add(batch.spans.length(i));
    for (std::int64_t r = 0; r < batch.spans.length(i); ++r) share.rows.push_back(batch.spans.begin(i) + r);
  }
  for (auto& [expert, share] : shares) {
    const at::Tensor sequences = at::tensor(share.sequences, at::kLong);
    share.batch.tokens = batch.tokens.index_select(0, at::tensor(share.rows, at::kLong));
    share.context = context;
    share.context.losses.clear();
    share.context.random = context.random.fork("expert").fork(static_cast<std::uint64_t>(expert));
    share.context.sequence_domain = chosen(context.sequence_domain, sequences);
    share.context.sequence_cluster = chosen(context.sequence_cluster, sequences);
  }
  return shares;
}

/// Parts for these rows each, in the order of all rows.
at::Tensor in_order(const std::vector<at::Tensor>& parts, const std::vector<std::int64_t>& rows) {
  std::vector<std::int64_t> place(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) place[static_cast<std::size_t>(rows[i])] = static_cast<std::int64_t>(i);
  return at::cat(parts).index_select(0, at::tensor(place, at::kLong));
}

}  // namespace

Gpt::Gpt(const Architecture& architecture, Sites sites, at::ScalarType type)
    : architecture_(architecture), sites_(std::move(sites)), parameters_(type) {
  if (const std::string problem = architecture_.problem(); !problem.empty()) throw std::invalid_argument(problem);
  ExpertSite* whole = find_site(sites_, Place::whole, 0);
  if (whole == nullptr) {
    bodies_.push_back(declare_body(""));
  } else {
    if (sites_.size() > 1) throw std::invalid_argument("whole models are dense: no further site goes with theirs");
    whole->bind(parameters_, site_prefix(Place::whole, 0));
    for (std::int64_t i = 0; i < whole->site().experts; ++i) bodies_.push_back(declare_body(expert_prefix(i)));
    whole_ = whole;
  }
  parameters_.allocate();
}

Gpt::Body Gpt::declare_body(const std::string& prefix) {
  const auto& a = architecture_;
  auto& p = parameters_;
  Body body;
  body.tokens = p.declare(prefix + "embedding.tokens", spec("", {a.vocabulary, a.width}).normal(start_deviation));
  if (a.position == Position::learned)
    body.positions = p.declare(prefix + "embedding.positions", spec("", {a.context, a.width}).normal(start_deviation));
  for (std::int64_t i = 0; i < a.layers; ++i) body.layers.push_back(declare_layer(prefix, i));
  body.final_norm = declare_norm(prefix + "final_norm");
  if (a.read_out == ReadOut::untied)
    body.output = p.declare(prefix + "read_out.tokens", spec("", {a.vocabulary, a.width}).normal(start_deviation));
  if (a.classes > 0) {
    body.head = p.declare(prefix + "head.classes", spec("", {a.classes, a.width}).normal(start_deviation));
    body.head_bias = p.declare(prefix + "head.classes_bias", spec("", {a.classes}).without_decay());
  }
  return body;
}

Gpt::Layer Gpt::declare_layer(const std::string& prefix, std::int64_t index) {
  const auto& a = architecture_;
  auto& p = parameters_;
  const std::string name = prefix + fmt::format("layer{}.", index);
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

at::Tensor Gpt::embed(const Body& body, const Batch& batch, ForwardContext& context) const {
  const Spans& spans = batch.spans;
  TORCH_CHECK(batch.tokens.dim() == 1 && batch.tokens.size(0) == spans.rows(), "tokens ", batch.tokens.sizes(), " for ",
              spans.rows(), " rows");
  for (std::int64_t i = 0; i < spans.count(); ++i)
    TORCH_CHECK(spans.length(i) >= 1 && spans.length(i) <= architecture_.context, "a sequence of ", spans.length(i),
                " tokens; the context is ", architecture_.context);
  parameters_.refresh();
  at::Tensor x = at::embedding(*body.tokens, batch.tokens);
  if (body.positions) x = x + at::embedding(*body.positions, positions_of(spans));
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

at::Tensor Gpt::block(const Body& body, const at::Tensor& x, std::int64_t index, const Spans& spans,
                      ForwardContext& context) const {
  const Layer& layer = body.layers[static_cast<std::size_t>(index)];
  const at::Tensor normal = normalise(x, layer.attention_norm, context);
  const at::Tensor attended = attend(normal, layer, index, spans, context);
  if (architecture_.block == BlockForm::parallel) return x + attended + think(normal, layer, index, spans, context);
  const at::Tensor y = x + attended;
  return y + think(normalise(y, layer.feed_forward_norm, context), layer, index, spans, context);
}

at::Tensor Gpt::hidden_of(const Body& body, const Batch& batch, ForwardContext& context) const {
  at::Tensor x = embed(body, batch, context);
  for (std::int64_t i = 0; i < architecture_.layers; ++i) x = block(body, x, i, batch.spans, context);
  return normalise(x, body.final_norm, context);
}

at::Tensor Gpt::last_hidden_of(const Body& body, const Batch& batch, ForwardContext& context) const {
  const at::Tensor last = last_rows(batch.spans);
  const Layer& layer = body.layers.back();
  const ExpertSite* last_site = layer.feed_forward_site;
  const bool needs_all_rows =
      layer.attention_site != nullptr || context.twice || context.watch ||
      (last_site != nullptr && (last_site->by_sequence() || (context.training && last_site->has_losses())));
  if (needs_all_rows) return hidden_of(body, batch, context).index_select(0, last);
  at::Tensor x = embed(body, batch, context);
  const std::int64_t final_layer = architecture_.layers - 1;
  for (std::int64_t i = 0; i < final_layer; ++i) x = block(body, x, i, batch.spans, context);
  const at::Tensor normal = normalise(x, layer.attention_norm, context);
  const at::Tensor attended = attend_last(normal, layer, final_layer, batch.spans, last, context);
  const at::Tensor y = x.index_select(0, last) + attended;
  const at::Tensor enters =
      architecture_.block == BlockForm::parallel ? normal.index_select(0, last) : normalise(y, layer.feed_forward_norm, context);
  return normalise(y + think(enters, layer, final_layer, one_row_each(batch.spans), context), body.final_norm, context);
}

at::Tensor Gpt::by_expert(const Batch& batch, ForwardContext& context, Pass pass, bool a_row_each) const {
  TORCH_CHECK(!context.watch, "what enters the layers of several whole models is not looked at: extract one of them");
  const at::Tensor experts = whole_->expert_of_sequences(batch.spans, context);
  std::vector<at::Tensor> parts;
  std::vector<std::int64_t> rows, of_rows(static_cast<std::size_t>(a_row_each ? batch.spans.count() : batch.spans.rows()));
  for (auto& [expert, share] : shares_of(batch, experts, context)) {
    parts.push_back((this->*pass)(bodies_[static_cast<std::size_t>(expert)], share.batch, share.context));
    const auto& own = a_row_each ? share.sequences : share.rows;
    rows.insert(rows.end(), own.begin(), own.end());
    for (const std::int64_t row : own) of_rows[static_cast<std::size_t>(row)] = expert;
  }
  context.expert_of_row = at::tensor(of_rows, at::kLong);
  return in_order(parts, rows);
}

at::Tensor Gpt::hidden(const Batch& batch, ForwardContext& context) const {
  return whole_ == nullptr ? hidden_of(bodies_.front(), batch, context) : by_expert(batch, context, &Gpt::hidden_of, false);
}

at::Tensor Gpt::last_hidden(const Batch& batch, ForwardContext& context) const {
  return whole_ == nullptr ? last_hidden_of(bodies_.front(), batch, context)
                           : by_expert(batch, context, &Gpt::last_hidden_of, true);
}

at::Tensor Gpt::of_rows(const at::Tensor& expert_of_row,
                        const std::function<at::Tensor(const Body& body, const at::Tensor& rows)>& of) const {
  if (whole_ == nullptr) return of(bodies_.front(), {});
  TORCH_CHECK(expert_of_row.defined(), "which of the whole models each row is of is not known");
  std::map<std::int64_t, std::vector<std::int64_t>> rows;
  const at::Tensor experts = expert_of_row.contiguous();
  for (std::int64_t i = 0; i < experts.numel(); ++i) rows[experts.data_ptr<std::int64_t>()[i]].push_back(i);
  if (rows.size() == 1) return of(bodies_[static_cast<std::size_t>(rows.begin()->first)], {});
  std::vector<at::Tensor> parts;
  std::vector<std::int64_t> all;
  for (const auto& [expert, own] : rows) {
    parts.push_back(of(bodies_[static_cast<std::size_t>(expert)], at::tensor(own, at::kLong)));
    all.insert(all.end(), own.begin(), own.end());
  }
  return in_order(parts, all);
}

namespace {

at::Tensor rows_of(const at::Tensor& all, const at::Tensor& rows) { return rows.defined() ? all.index_select(0, rows) : all; }

}  // namespace

at::Tensor Gpt::read_out(const at::Tensor& hidden, const at::Tensor& expert_of_row, bool twice) const {
  return of_rows(expert_of_row, [&](const Body& body, const at::Tensor& rows) {
    const at::Tensor own = rows_of(hidden, rows);
    return twice ? at::linear(own, body.table()) : linear(own, body.table(), at::Tensor());
  });
}

at::Tensor Gpt::read_out_loss(const at::Tensor& hidden, const at::Tensor& targets, const at::Tensor& expert_of_row,
                              bool twice) const {
  // The mean over all rows is that over the rows of each model, weighed by how many they are.
  const at::Tensor parts = of_rows(expert_of_row, [&](const Body& body, const at::Tensor& rows) {
    const at::Tensor own = rows_of(hidden, rows), wanted = rows_of(targets, rows);
    const at::Tensor loss = twice ? plain_cross_entropy(own, body.table(), wanted) : cross_entropy(own, body.table(), wanted);
    return rows.defined() ? loss.expand({own.size(0)}) : loss;
  });
  return parts.dim() == 0 ? parts : parts.mean();
}

at::Tensor Gpt::read_out_losses(const at::Tensor& hidden, const at::Tensor& targets, const at::Tensor& expert_of_row) const {
  return of_rows(expert_of_row, [&](const Body& body, const at::Tensor& rows) {
    return token_losses(rows_of(hidden, rows), body.table(), rows_of(targets, rows));
  });
}

at::Tensor Gpt::language_loss(const Batch& batch, const at::Tensor& targets, ForwardContext& context) const {
  const at::Tensor rows = hidden(batch, context);
  return read_out_loss(rows, targets, context.expert_of_row, context.twice);
}

at::Tensor Gpt::language_losses(const Batch& batch, const at::Tensor& targets, ForwardContext& context) const {
  const at::NoGradGuard no_gradient;
  const at::Tensor rows = hidden(batch, context);
  return read_out_losses(rows, targets, context.expert_of_row);
}

at::Tensor Gpt::class_logits(const Batch& batch, ForwardContext& context) const {
  const at::Tensor last = last_hidden(batch, context);
  return of_rows(context.expert_of_row, [&](const Body& body, const at::Tensor& rows) {
    return linear(rows_of(last, rows), *body.head, *body.head_bias);
  });
}

}  // namespace moiety::engine
