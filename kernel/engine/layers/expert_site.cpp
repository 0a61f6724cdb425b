#include "kernel/engine/layers/expert_site.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kernel/engine/checkpoint/state_archive.h"
#include "kernel/engine/layers/feed_forward.h"
#include "kernel/engine/layers/routed_feed_forward.h"

namespace moiety::engine {
namespace {

std::string text(at::IntArrayRef sizes) { return fmt::format("[{}]", fmt::join(sizes.begin(), sizes.end(), ", ")); }

bool finite(const at::Tensor& tensor) { return at::isfinite(tensor.detach()).all().item<bool>(); }

bool is_float(const at::Tensor& tensor) { return at::isFloatingType(tensor.scalar_type()); }

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

}  // namespace

/// The tensors by role, which is how a router reads them.
class ExpertSite::RoleBank final : public Bank {
 public:
  std::int64_t experts() const override { return count; }
  bool has(std::string_view role) const override { return roles.count(std::string(role)) > 0; }
  at::Tensor weight(std::string_view role) const override {
    const auto found = roles.find(std::string(role));
    if (found == roles.end()) throw std::out_of_range("this bank has no role " + std::string(role));
    return *found->second;
  }
  at::Tensor keys() const override { return weight("in"); }
  at::Tensor maybe(const char* role) const { return has(role) ? weight(role) : at::Tensor(); }

  std::int64_t count = 0;
  std::map<std::string, Weight> roles;
};

namespace {

/// Declares in the store and remembers what stands for which role, with the shape that was asked for.
class RoleRecorder final : public Parameters {
 public:
  RoleRecorder(ParameterStore& store, std::string prefix) : inner_(store, std::move(prefix)) {}
  Weight add(Spec spec) override {
    const std::string role = spec.name;
    shapes[role] = spec.shape;
    return roles[role] = inner_.add(std::move(spec));
  }
  std::map<std::string, Weight> roles;
  std::map<std::string, std::vector<std::int64_t>> shapes;

 private:
  PrefixedParameters inner_;
};

}  // namespace

at::Tensor gate_of(const Routing& routing, std::int64_t rows, std::int64_t experts, const at::Tensor& hidden,
                   const char* router) {
  const auto refuse = [router](const std::string& what) { throw ComponentFailure(router, "route", what); };
  const at::Tensor &chosen = routing.experts, &weights = routing.weights;
  if (chosen.defined()) {
    if (chosen.scalar_type() != at::kLong) refuse(fmt::format("experts are {}, not int64", c10::toString(chosen.scalar_type())));
    if (chosen.dim() != 2 || chosen.size(0) != rows)
      refuse(fmt::format("experts are {}, not [{}, k]", text(chosen.sizes()), rows));
    if (chosen.numel() > 0) {
      const auto low = chosen.min().item<std::int64_t>(), high = chosen.max().item<std::int64_t>();
      if (low < -1 || high >= experts) refuse(fmt::format("expert {} of {} was chosen", low < -1 ? low : high, experts));
    }
  }
  if (weights.defined()) {
    const std::int64_t columns = chosen.defined() ? chosen.size(1) : experts;
    if (weights.dim() != 2 || weights.size(0) != rows || weights.size(1) != columns)
      refuse(fmt::format("weights are {}, not [{}, {}]", text(weights.sizes()), rows, columns));
    if (!is_float(weights)) refuse(fmt::format("weights are {}, not floating-point", c10::toString(weights.scalar_type())));
    if (!finite(weights) && finite(hidden)) refuse("weights are not finite although the input is");
  }
  if (!chosen.defined()) return weights.defined() ? weights.to(hidden.scalar_type()) : at::Tensor();
  // An empty place (−1) goes to a column of its own, which is cut off.
  const at::Tensor places = chosen.remainder(experts + 1);
  const at::Tensor values = weights.defined() ? weights.to(hidden.scalar_type()) : at::ones(chosen.sizes(), hidden.options());
  return at::zeros({rows, experts + 1}, hidden.options()).scatter_add(1, places, values).narrow(1, 0, experts);
}

ExpertSite::ExpertSite(Site site, Instance constructor, Instance router)
    : site_(site), bank_(std::make_shared<RoleBank>()), constructor_(std::move(constructor)), router_(std::move(router)) {
  bank_->count = site_.experts;
  by_sequence_ = call("rows", router_, [&] { return router_.as<Router>().rows(); }) == Rows::sequence;
}

void ExpertSite::bind(ParameterStore& store, const std::string& prefix) {
  RoleRecorder recorder(store, prefix);
  call("bind", constructor_, [&] { constructor_.as<ExpertConstructor>().bind(site_, recorder); });
  const std::int64_t n = site_.experts, d = site_.width;
  const auto refuse = [this](const std::string& what) { throw ComponentFailure(constructor_.name, "bind", what); };
  const auto in = recorder.shapes.find("in"), out = recorder.shapes.find("out");
  if (in == recorder.shapes.end() || out == recorder.shapes.end()) refuse("the roles `in` and `out` must be declared");
  const std::int64_t s = in->second.size() == 3 ? in->second[1] : 0;
  const auto expect = [&](const char* role, const std::vector<std::vector<std::int64_t>>& allowed) {
    const auto shape = recorder.shapes.find(role);
    if (shape == recorder.shapes.end()) return;
    for (const auto& one : allowed)
      if (shape->second == one) return;
    refuse(fmt::format("`{}` is {}, not {}", role, text(shape->second), text(allowed.front())));
  };
  neurons_ = s;
  expect("in", {{n, s, d}});
  expect("out", {{n, d, s}});
  expect("in_bias", {{n, s}});
  expect("out_bias", {{1, d}, {n, d}});
  for (const auto& [role, weight] : recorder.roles)
    if (role != "in" && role != "out" && role != "in_bias" && role != "out_bias")
      refuse("no feed-forward has a role `" + role + "`");
  bank_->roles = std::move(recorder.roles);
  PrefixedParameters of_router(store, prefix + "router.");
  call("bind", router_, [&] { router_.as<Router>().bind(site_, of_router, *bank_); });
}

at::Tensor ExpertSite::forward(const at::Tensor& x, const Spans& spans, ForwardContext& context) const {
  const std::int64_t rows = x.size(0), n = site_.experts, d = site_.width;
  RouterInput input;
  if (by_sequence_ || spans.common_length() > 0)
    give_sequences(x, spans, input);
  else
    input.hidden = x.unsqueeze(0);
  input.training = context.training;
  input.step = context.step;
  input.random = context.random.fork("router").fork(static_cast<std::uint64_t>(site_.layer));
  Routing routing = call("route", router_, [&] { return router_.as<Router>().route(input); });
  at::Tensor gate = gate_of(routing, by_sequence_ ? spans.count() : rows, n, x, router_.name);
  if (context.training && routing.observed.defined()) {
    observed_.push_back(routing.observed.detach());
    if (routing.experts.defined()) chosen_.push_back(routing.experts);
  }
  if (by_sequence_) {
    gate = of_tokens(gate, spans);
    routing.experts = of_tokens(routing.experts, spans);
  }
  for (const auto& [name, value] : routing.losses) {
    const auto weight = router_.loss_weights.find(std::string(name));
    if (weight == router_.loss_weights.end())
      throw ComponentFailure(router_.name, "route", fmt::format("the loss `{}` was not declared", name));
    if (!value.defined() || value.dim() != 0)
      throw ComponentFailure(router_.name, "route", fmt::format("the loss `{}` is not one number", name));
    if (!finite(value) && finite(x))
      throw ComponentFailure(router_.name, "route", fmt::format("the loss `{}` is not finite although the input is", name));
    if (context.training && weight->second != 0) context.losses.push_back(value * weight->second);
  }

  const at::Tensor in = bank_->weight("in"), out = bank_->weight("out"), in_bias = bank_->maybe("in_bias"),
                   out_bias = bank_->maybe("out_bias");
  const bool shared = out_bias.defined() && out_bias.size(0) == 1;
  if (worth_routing(x, n, routing.experts)) {
    const at::Tensor y = routed_feed_forward(x, {in, in_bias, out}, gate, routing.experts);
    if (!out_bias.defined()) return y;
    return shared ? y + out_bias.view({d}) : y + gate.matmul(out_bias);
  }
  FeedForwardWeights weights;
  weights.in = in.view({n * in.size(1), d});
  weights.out = out.permute({1, 0, 2}).reshape({d, n * in.size(1)});
  if (in_bias.defined()) weights.in_bias = in_bias.reshape({-1});
  if (shared) weights.out_bias = out_bias.view({d});
  const at::Tensor y = feed_forward(x, weights, gate);
  if (!out_bias.defined() || shared) return y;
  return gate.defined() ? y + gate.matmul(out_bias) : y + out_bias.sum(0);
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
