#include "kernel/engine/layers/expert_site.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernel/engine/checkpoint/state_archive.h"
#include "kernel/engine/layers/attention_experts.h"
#include "kernel/engine/layers/feed_forward.h"
#include "kernel/engine/layers/gate.h"
#include "kernel/engine/layers/routed_feed_forward.h"

namespace moiety::engine {
namespace {

/// x [rows, d] → [B, L, d] with a mask [B, L], undefined when all sequences are equally long.
void give_sequences(const at::Tensor& x, const Spans& spans, RouterInput& input) {
  const std::int64_t length = spans.common_length(), d = x.size(1);
  if (length > 0) {
    input.hidden = x.view({spans.count(), length, d});
    return;
  }
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < spans.count(); ++i) longest = std::max(longest, spans.length(i));
  at::Tensor places = at::empty({spans.rows()}, at::kLong), mask = at::zeros({spans.count(), longest}, at::kBool);
  auto* place = places.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < spans.count(); ++i)
    for (std::int64_t r = 0; r < spans.length(i); ++r) {
      place[spans.begin(i) + r] = i * longest + r;
      mask.data_ptr<bool>()[i * longest + r] = true;
    }
  input.hidden = at::zeros({spans.count() * longest, d}, x.options()).index_copy(0, places, x).view({spans.count(), longest, d});
  input.mask = mask;
}

/// A row of each sequence → a row of each of its tokens.
at::Tensor of_tokens(const at::Tensor& of_sequences, const Spans& spans) {
  if (!of_sequences.defined()) return of_sequences;
  at::Tensor sequence = at::empty({spans.rows()}, at::kLong);
  for (std::int64_t i = 0; i < spans.count(); ++i)
    std::fill_n(sequence.data_ptr<std::int64_t>() + spans.begin(i), spans.length(i), i);
  return of_sequences.index_select(0, sequence);
}

/// The different experts that rows run, ascending.
std::vector<std::int64_t> used_experts(const at::Tensor& chosen) {
  const at::Tensor all = chosen.contiguous();
  std::vector<std::int64_t> used(all.data_ptr<std::int64_t>(), all.data_ptr<std::int64_t>() + all.numel());
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  if (!used.empty() && used.front() < 0) used.erase(used.begin());
  return used;
}

void count_use(const at::Tensor& chosen, std::int64_t experts, std::vector<std::int64_t>& times) {
  times.resize(static_cast<std::size_t>(experts));
  const auto* expert = chosen.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < chosen.numel(); ++i)
    if (expert[i] >= 0) ++times[static_cast<std::size_t>(expert[i])];
}

/// Numbers of experts → their places in `used`; −1 stays.
at::Tensor renumbered(const at::Tensor& chosen, const std::vector<std::int64_t>& used) {
  const at::Tensor places = chosen.clone();
  auto* place = places.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < places.numel(); ++i)
    if (place[i] >= 0) place[i] = std::lower_bound(used.begin(), used.end(), place[i]) - used.begin();
  return places;
}

}  // namespace

const char* name_of(Place place) {
  return place == Place::attention ? "attention" : place == Place::feed_forward ? "feed_forward" : "whole";
}

std::optional<Place> place_of(const std::string& name) {
  for (const Place place : {Place::feed_forward, Place::attention, Place::whole})
    if (name == name_of(place)) return place;
  return std::nullopt;
}

std::string site_prefix(Place place, std::int64_t layer) {
  return place == Place::whole ? "whole." : fmt::format("layer{}.{}.", layer, name_of(place));
}

std::string expert_prefix(std::int64_t expert) { return fmt::format("expert{}.", expert); }

std::string name_in_model(const std::string& name) {
  const auto point = name.find('.');
  const bool of_expert =
      name.rfind("expert", 0) == 0 && point != std::string::npos && point > 6 && name.find_first_not_of("0123456789", 6) == point;
  return of_expert ? name.substr(point + 1) : name;
}

bool is_read_out(const std::string& name) {
  const std::string own = name_in_model(name);
  return own.rfind("head.", 0) == 0 || own.rfind("read_out.", 0) == 0;
}

bool is_of_experts(const std::string& name, Place place, std::int64_t layer) {
  const std::string prefix = site_prefix(place, layer);
  return name.rfind(prefix, 0) == 0 && name.rfind(prefix + "norm.", 0) != 0;
}

ExpertSite* find_site(const Sites& sites, Place place, std::int64_t layer) {
  for (const auto& site : sites)
    if (site->site().place == place && site->site().layer == layer) return site.get();
  return nullptr;
}

ExpertSite::ExpertSite(Site site, Instance constructor, Instance router, double capacity)
    : site_(site),
      capacity_(capacity),
      bank_(std::make_unique<RoleBank>(site)),
      constructor_(std::move(constructor)),
      router_(std::move(router)) {
  by_sequence_ = call("rows", router_, [&] { return router_.as<Router>().rows(); }) == Rows::sequence;
  needs_ = call("needs", router_, [&] { return router_.component->needs(); });
  wants_sequences_ = by_sequence_ || needs_.domain_labels || needs_.cluster_labels;
}

void ExpertSite::bind(ParameterStore& store, const std::string& prefix) {
  bank_->bind(constructor_, store, prefix);
  PrefixedParameters of_router(store, prefix + "router.");
  call("bind", router_, [&] { router_.as<Router>().bind(site_, of_router, *bank_); });
}

Routing ExpertSite::route(const at::Tensor& x, const Spans& spans, ForwardContext& context) const {
  RouterInput input;
  if (wants_sequences_ || spans.common_length() > 0)
    give_sequences(x, spans, input);
  else
    input.hidden = x.unsqueeze(0);
  if (needs_.domain_labels) input.domain = context.sequence_domain;
  if (needs_.cluster_labels) input.cluster = context.sequence_cluster;
  if ((needs_.domain_labels && !input.domain.defined()) || (needs_.cluster_labels && !input.cluster.defined()))
    throw ComponentFailure(router_.name, "route", "asks for labels of the sequences, which are not known here");
  input.training = context.training;
  input.wants_losses = context.training && has_losses();
  input.step = context.step;
  input.random = context.random.fork("router").fork(static_cast<std::uint64_t>(site_.layer));
  if (site_.place == Place::attention) input.random = input.random.fork("attention");
  return call("route", router_, [&] { return router_.as<Router>().route(input); });
}

void ExpertSite::note_losses(const Routing& routing, const at::Tensor& x, ForwardContext& context) const {
  for (const auto& [name, value] : routing.losses) {
    const auto weight = router_.loss_weights.find(std::string(name));
    if (weight == router_.loss_weights.end())
      throw ComponentFailure(router_.name, "route", fmt::format("the loss `{}` was not declared", name));
    if (!value.defined() || value.dim() != 0)
      throw ComponentFailure(router_.name, "route", fmt::format("the loss `{}` is not one number", name));
    if (!all_finite(value) && all_finite(x))
      throw ComponentFailure(router_.name, "route", fmt::format("the loss `{}` is not finite although the input is", name));
    if (context.training && weight->second != 0) context.losses.push_back(value * weight->second);
  }
  if (!context.training) return;
  for (const auto& [name, value] : routing.metrics) {
    Sum& sum = metrics_[std::string(name)];
    sum.total += value.detach().item<double>();
    ++sum.count;
  }
}

at::Tensor ExpertSite::forward(const at::Tensor& x, const Spans& spans, ForwardContext& context) const {
  const std::int64_t rows = by_sequence_ ? spans.count() : x.size(0);
  Routing routing = route(x, spans, context);
  if (capacity_ > 0 && routing.experts.defined()) {
    gate_of(routing, rows, site_.experts, x, router_.name);  // what cannot be is told before it is counted
    std::int64_t dropped = 0;
    const double each = cost().experts_per_row * static_cast<double>(rows) / static_cast<double>(site_.experts);
    const auto limit = static_cast<std::int64_t>(std::ceil(capacity_ * each - 1e-9));
    const auto before = at::ge(routing.experts, 0).sum().item<std::int64_t>();
    routing.experts =
        within_capacity(routing.experts.contiguous(), site_.experts, std::max<std::int64_t>(1, limit), routing.priority, dropped);
    if (context.training) {
      Sum& sum = metrics_["dropped"];
      sum.total += before > 0 ? static_cast<double>(dropped) / static_cast<double>(before) : 0;
      ++sum.count;
    }
  }
  at::Tensor gate = gate_of(routing, rows, site_.experts, x, router_.name);
  if (context.training && routing.experts.defined()) count_use(routing.experts.contiguous(), site_.experts, usage_);
  if (context.training && routing.observed.defined()) {
    observed_.push_back(routing.observed.detach());
    if (routing.experts.defined()) chosen_.push_back(routing.experts);
  }
  note_losses(routing, x, context);
  const at::Tensor of_sequences = by_sequence_ ? routing.experts : at::Tensor();
  at::Tensor chosen = routing.experts;
  if (by_sequence_) {
    gate = of_tokens(gate, spans);
    chosen = of_tokens(chosen, spans);
  }
  // Derived roles are made for the experts that somebody runs.
  std::vector<std::int64_t> used;
  const bool some = bank_->derives() && chosen.defined();
  if (some) {
    used = used_experts(chosen);
    if (used.empty()) used = {0};
    gate = gate.index_select(1, at::tensor(used, at::kLong));
    chosen = renumbered(chosen, used);
  }
  const auto* which = some ? &used : nullptr;
  if (site_.place == Place::attention)
    return attention_of(x, spans, gate, some && of_sequences.defined() ? renumbered(of_sequences, used) : of_sequences, which,
                        context.twice);
  return feed_forward_of(x, gate, chosen, which, context.twice);
}

at::Tensor ExpertSite::expert_of_sequences(const Spans& spans, ForwardContext& context) const {
  const at::Tensor nothing = at::zeros({spans.rows(), 1});
  const Routing routing = route(nothing, spans, context);
  gate_of(routing, spans.count(), site_.experts, nothing, router_.name);
  if (!routing.experts.defined() || routing.experts.size(1) != 1 || routing.weights.defined())
    throw ComponentFailure(router_.name, "route", "does not say one model for each sequence");
  const at::Tensor experts = routing.experts.contiguous();
  if (context.training) count_use(experts, site_.experts, usage_);
  note_losses(routing, nothing, context);
  return experts.view({-1});
}

at::Tensor ExpertSite::feed_forward_of(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& chosen,
                                       const std::vector<std::int64_t>* used, bool plain) const {
  const auto role = [&](const char* name) { return bank_->maybe(name, used); };
  const at::Tensor in = role("in"), up = role("up"), out = role("out"), in_bias = role("in_bias"), up_bias = role("up_bias"),
                   out_bias = role("out_bias");
  const std::int64_t n = in.size(0), d = site_.width;
  const bool shared = out_bias.defined() && bank_->first_dimension("out_bias") == 1;
  if (!plain && worth_routing(x, n, chosen)) {
    const ExpertWeights each{with_up(in, up, 1), in_bias.defined() ? with_up(in_bias, up_bias, 1) : in_bias, out,
                             site_.activation};
    const at::Tensor y = routed_feed_forward(x, each, gate, chosen);
    if (!out_bias.defined()) return y;
    return shared ? y + out_bias.view({d}) : y + gate.matmul(out_bias);
  }
  const auto all = [&](const at::Tensor& part) { return part.defined() ? part.flatten(0, 1) : part; };
  FeedForwardWeights weights;
  weights.activation = site_.activation;
  weights.in = with_up(all(in), all(up), 0);
  weights.out = out.permute({1, 0, 2}).reshape({d, n * in.size(1)});
  if (in_bias.defined()) weights.in_bias = with_up(all(in_bias), all(up_bias), 0);
  if (shared) weights.out_bias = out_bias.view({d});
  const at::Tensor y = plain ? plain_feed_forward(x, weights, gate) : feed_forward(x, weights, gate);
  if (!out_bias.defined() || shared) return y;
  return gate.defined() ? y + gate.matmul(out_bias) : y + out_bias.sum(0);
}

at::Tensor ExpertSite::attention_of(const at::Tensor& x, const Spans& spans, const at::Tensor& gate,
                                    const at::Tensor& of_sequences, const std::vector<std::int64_t>* used, bool plain) const {
  const auto role = [&](const char* name) { return bank_->maybe(name, used); };
  const AttentionExpertWeights weights{role("q"), role("q_bias"), role("k"), role("k_bias"),
                                       role("v"), role("v_bias"), role("o"), role("o_bias")};
  const AttentionForm form = form_of(site_);
  if (of_sequences.defined() && of_sequences.size(1) == 1) {
    const at::Tensor one = of_sequences.contiguous();
    const std::vector<std::int64_t> choice(one.data_ptr<std::int64_t>(), one.data_ptr<std::int64_t>() + one.numel());
    return sequence_attention_experts(x, spans, form, weights, choice, gate, plain);
  }
  return attention_experts(x, spans, form, weights, gate, plain);
}

void ExpertSite::prepare(const Activations* activations, const Random& random) {
  call("prepare", router_, [&] { router_.as<Router>().prepare(activations, random); });
}

void ExpertSite::after_step(std::int64_t step) {
  const at::NoGradGuard no_gradient;
  Observed seen;
  seen.step = step;
  if (!chosen_.empty()) seen.experts = at::cat(chosen_);
  if (!observed_.empty()) seen.observed = at::cat(observed_);
  chosen_.clear();
  observed_.clear();
  call("after_step", router_, [&] { router_.as<Router>().after_step(seen); });
}

std::map<std::string, double> ExpertSite::take_metrics() {
  std::map<std::string, double> means;
  for (const auto& [name, sum] : metrics_) means[name] = sum.count > 0 ? sum.total / sum.count : 0;
  metrics_.clear();
  return means;
}

void ExpertSite::state(Archive& archive) {
  PrefixedArchive of_experts(archive, "experts."), of_router(archive, "router.");
  state_of_all(constructor_, of_experts);
  state_of_all(router_, of_router);
}

bool ExpertSite::has_losses() const {
  for (const auto& [name, weight] : router_.loss_weights)
    if (weight != 0) return true;
  return false;
}

RouterCost ExpertSite::cost() const {
  return call("cost", router_, [&] { return router_.as<Router>().cost(site_); });
}

}  // namespace moiety::engine
