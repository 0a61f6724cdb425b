// Scores of the experts by a small network that has learned how much each of them does, for routers that choose by scores
// (top-k).
//
//   l = A tanh(B x̂),  x̂ = x/‖x‖         B [N, d]: starts as the mean direction of each expert's keys; A [N, N]: as the identity
//   mass_i = Σ_{j in expert i} max(0, key_j·x + b_j)        on recorded inputs, once, in prepare()
//   loss = mean BCE(σ(l), mass / the largest mass of the batch), by Adam
//
// A part of the tokens is held out: the epoch counts after which the best experts by l hold most of the mass that the best by
// mass hold (`captured`). Afterwards nothing of it trains. Zhang et al.: "MoEfication", Findings of ACL 2022, section 3.3, and
// its code; the activation is taken to be ReLU, whatever the model's.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "moiety/report.h"
#include "moiety/router.h"
#include "moiety/select.h"

namespace {

using namespace moiety;

at::Tensor units(const at::Tensor& x) { return x / x.norm(2, {-1}, /*keepdim=*/true).clamp_min(1e-12); }

/// Adam of one tensor: Kingma, Ba 2015, with its constants.
class Adam {
 public:
  Adam(at::Tensor value, double rate)
      : value_(std::move(value)), rate_(rate), mean_(at::zeros_like(value_)), square_(mean_.clone()) {}
  void step(const at::Tensor& gradient) {
    ++steps_;
    mean_.mul_(0.9).add_(gradient, 0.1);
    square_.mul_(0.999).addcmul_(gradient, gradient, 0.001);
    const double of_mean = 1 - std::pow(0.9, steps_), of_square = 1 - std::pow(0.999, steps_);
    value_.addcdiv_(mean_ / of_mean, (square_ / of_square).sqrt_().add_(1e-8), -rate_);
  }

 private:
  at::Tensor value_;
  double rate_;
  at::Tensor mean_, square_;
  int steps_ = 0;
};

class ActivationMlp final : public Router {
 public:
  struct Options {
    std::int64_t epochs, batch, tokens;
    double learning_rate, held_out, share;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::epochs>("epochs", 30, "passes over the recorded tokens").range(1, 10000).in("epochs"),
      param<&Options::batch>("batch", 512, "tokens a step").at_least(1).in("tokens"),
      param<&Options::tokens>("tokens", 65536, "recorded tokens that are looked at, at most").at_least(2).in("tokens"),
      param<&Options::learning_rate>("learning_rate", 0.01, "of Adam").above(0),
      param<&Options::held_out>("held_out", 0.1, "share of the tokens that choose the epoch; 0: the last one is taken")
          .at_least(0)
          .at_most(0.5),
      param<&Options::share>("share", 0.2, "share of the experts by which `captured` is measured").above(0).at_most(1)};
  static constexpr Output outputs[] = {
      metric("captured", "fraction", +1, "positive activation of the experts that score best, of that of the best experts")};

  explicit ActivationMlp(const Options& options) : options_(options) {}

  Needs needs() const override {
    Needs needs;
    needs.activations = true;
    return needs;
  }
  void check(const Facts& facts, Problems& problems) const override {
    if (facts.site != nullptr && facts.site->place != Place::feed_forward)
      problems.add("", "scores neurons of feed-forwards alone");
  }
  RouterCost cost(const Site& site) const override {
    const std::int64_t n = site.experts;
    return {static_cast<double>(n), static_cast<double>(n * (site.width + n))};
  }
  void bind(const Site& site, Parameters& to, const Bank& bank) override {
    const std::int64_t n = site.experts;
    bank_ = &bank;
    first_ = to.add(spec("first", {n, site.width}).fixed().without_decay().of_experts());
    second_ = to.add(spec("second", {n, n}).fixed().without_decay().of_experts());
  }

  void prepare(const Activations* activations, Random random) override {
    const at::NoGradGuard no_gradient;
    if (activations == nullptr) throw std::invalid_argument("there are no recorded inputs to learn from");
    const at::Tensor x = recorded(*activations), mass = masses(x), inputs = units(x);
    std::vector<std::int64_t> order(static_cast<std::size_t>(x.size(0)));
    std::iota(order.begin(), order.end(), 0);
    Random draws = random.fork("held out");
    draws.shuffle(order);
    const auto held = static_cast<std::ptrdiff_t>(options_.held_out * static_cast<double>(order.size()));
    const at::Tensor judges = at::tensor(std::vector<std::int64_t>(order.begin(), order.begin() + held), at::kLong);
    order.erase(order.begin(), order.begin() + held);
    train(inputs, mass, judges, order, random);
  }

  Routing route(const RouterInput& input) const override {
    const at::NoGradGuard no_gradient;
    Routing routing;
    routing.weights = scores(units(input.hidden.detach().flatten(0, 1).to(first_->scalar_type())), *first_, *second_);
    return routing;
  }

  void state(Archive& archive) override { archive("captured", captured_); }
  void report(Report& report) const override {
    if (captured_ >= 0) report.metric("captured", captured_);
  }

 private:
  static at::Tensor scores(const at::Tensor& units, const at::Tensor& first, const at::Tensor& second) {
    return units.matmul(first.t()).tanh().matmul(second.t());
  }

  at::Tensor recorded(const Activations& activations) const {
    std::vector<at::Tensor> parts;
    std::int64_t tokens = 0;
    for (std::int64_t window = 0; window < activations.windows() && tokens < options_.tokens; ++window) {
      const at::Tensor one = activations.read(window, window + 1).flatten(0, 1).to(at::kFloat);
      parts.push_back(one.narrow(0, 0, std::min(one.size(0), options_.tokens - tokens)));
      tokens += parts.back().size(0);
    }
    if (tokens < 2) throw std::invalid_argument("there are no recorded inputs to learn from");
    return at::cat(parts);
  }

  /// [tokens, N], some tokens at a time: there are as many activations as neurons.
  at::Tensor masses(const at::Tensor& x) const {
    const at::Tensor keys = bank_->weight("in").detach().to(at::kFloat);
    std::vector<at::Tensor> parts;
    for (const at::Tensor& some : x.split(4096)) {
      at::Tensor neurons = some.matmul(keys.flatten(0, 1).t());
      if (bank_->has("in_bias")) neurons = neurons + bank_->weight("in_bias").detach().flatten();
      parts.push_back(neurons.relu().view({some.size(0), keys.size(0), keys.size(1)}).sum(2));
    }
    return at::cat(parts);
  }

  void train(const at::Tensor& inputs, const at::Tensor& mass, const at::Tensor& judges, std::vector<std::int64_t>& order,
             const Random& random) {
    const at::Tensor keys = bank_->keys().detach().to(at::kFloat);
    at::Tensor first = units(keys).mean(1), second = at::eye(keys.size(0));
    Adam of_first(first, options_.learning_rate), of_second(second, options_.learning_rate);
    const bool judged = judges.size(0) > 0;
    captured_ = -1;
    for (std::int64_t epoch = 0; epoch < options_.epochs; ++epoch) {
      random.fork("epoch").fork(static_cast<std::uint64_t>(epoch)).shuffle(order);
      for (const at::Tensor& rows : at::tensor(order, at::kLong).split(options_.batch)) {
        const at::Tensor x = inputs.index_select(0, rows), own = mass.index_select(0, rows);
        const double most = own.max().item().toDouble();
        const at::Tensor target = own / (most > 0 ? most : 1.0), middle = x.matmul(first.t()).tanh();
        // The derivative of the mean BCE in the logits, then backwards through both layers.
        const at::Tensor error = (middle.matmul(second.t()).sigmoid() - target) / static_cast<double>(target.numel());
        const at::Tensor below = error.matmul(second) * (1 - middle.square());
        of_second.step(error.t().matmul(middle));
        of_first.step(below.t().matmul(x));
      }
      const bool last = epoch + 1 == options_.epochs;
      if (!judged && !last) continue;
      const double captured = judged ? captured_by(first, second, inputs.index_select(0, judges), mass.index_select(0, judges))
                                     : captured_by(first, second, inputs, mass);
      if (captured <= captured_) continue;
      captured_ = captured;
      first_->copy_(first);
      second_->copy_(second);
    }
  }

  double captured_by(const at::Tensor& first, const at::Tensor& second, const at::Tensor& inputs, const at::Tensor& mass) const {
    const auto n = static_cast<double>(mass.size(1));
    const auto k = std::max<std::int64_t>(1, std::llround(options_.share * n));
    const double most = mass.gather(1, best_of_rows(mass, k)).sum().item().toDouble();
    if (most <= 0) return 1;
    return mass.gather(1, best_of_rows(scores(inputs, first, second), k)).sum().item().toDouble() / most;
  }

  Options options_;
  const Bank* bank_ = nullptr;
  Weight first_, second_;
  double captured_ = -1;  ///< before prepare()
};

}  // namespace

MOIETY_PLUGIN("activation-mlp", "1.0.0", "Learned scores of experts by their activations",
              component<ActivationMlp>("activation-mlp", 1, "Scores for top-k: a small network trained on recorded activations",
                                       "Zhang et al., MoEfication, Findings of ACL 2022, section 3.3"));
