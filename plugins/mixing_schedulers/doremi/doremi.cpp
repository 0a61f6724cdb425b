// DoReMi: weights of domains by how much a small proxy could still learn there, against a reference model.
//
//   λ_i   mean over the step's tokens of domain i of max(ℓ − ℓ_ref, 0), clipped token by token; a domain that is absent keeps its
//   last α'_i = α_i exp(step · λ_i),   α ← (1 − smoothing) α' / Σα' + smoothing / K            K: domains with windows
//
// α starts uniform. Windows are sampled uniformly over domains, or as the reference's data are by size (`sample`), and never by
// α: α enters through the loss, each window's times α_i / sampling share. The reference term of that loss is constant and left
// out. The answer for the main run is the result `weights`, the mean of α over all steps; `last_weights` is noisier. Xie et al.,
// "DoReMi: optimizing data mixtures speeds up language model pretraining", NeurIPS 2023, algorithm 1.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "moiety/mixing_scheduler.h"
#include "moiety/report.h"

namespace moiety::mixing {
MOIETY_CHOICE(Sample, uniform, proportional);
}

namespace {

using namespace moiety;
using mixing::Sample;

class DoReMi final : public MixingScheduler {
 public:
  struct Options {
    StageInput reference;
    double step, smoothing;
    Sample sample;
  };
  static constexpr Parameter parameters[] = {
      required<&Options::reference>("reference", "the reference model's stage").of("model"),
      param<&Options::step>("step", 1.0, "size of an update of the weights' logarithms").above(0),
      param<&Options::smoothing>("smoothing", 1e-3, "part of the weights that stays uniform").range(0, 1),
      param<&Options::sample>("sample", Sample::uniform, "what share of the windows each domain gets while weights are learned")};
  static constexpr Output outputs[] = {
      result("weights", "share", "mean of the weights over all steps: the mixture to train with"),
      result("last_weights", "share", "the weights after the last step"),
      metric("weight_change", "share", 0, "half the sum of |last weight − mean weight|: 0 equal, 1 nothing in common")};

  explicit DoReMi(Options options) : options_(std::move(options)) {}

  Needs needs() const override {
    Needs needs;
    needs.token_losses = needs.reference_losses = needs.domain_labels = true;
    return needs;
  }

  void check(const Facts& facts, Problems& problems) const override {
    const auto& windows = facts.domain_windows;
    if (!windows.empty() && std::count_if(windows.begin(), windows.end(), [](std::int64_t n) { return n > 0; }) < 2)
      problems.add("", "weights need at least two domains with training windows");
  }

  void start(const Domains& domains) override {
    names_ = domains.names;
    const std::size_t count = names_.size();
    if (!weights_.empty() && weights_.size() != count) throw std::invalid_argument("its state is of another number of domains");
    even_.assign(count, 0.0);
    sampled_.assign(count, 0.0);
    double present = 0, windows = 0;
    for (const std::int64_t n : domains.windows) {
      present += n > 0 ? 1 : 0;
      windows += static_cast<double>(std::max<std::int64_t>(0, n));
    }
    if (present < 1) throw std::invalid_argument("no domain has a training window");
    for (std::size_t d = 0; d < count; ++d) {
      if (domains.windows[d] < 1) continue;
      even_[d] = 1 / present;
      sampled_[d] = options_.sample == Sample::uniform ? even_[d] : static_cast<double>(domains.windows[d]) / windows;
    }
    if (!weights_.empty()) return;  // a checkpoint said them
    weights_ = even_;
    excess_.assign(count, 0.0);
    sum_.assign(count, 0.0);
  }

  Mixture mixture(const Progress&) const override {
    Mixture mixture{sampled_, std::vector<double>(weights_.size(), 1.0)};
    for (std::size_t d = 0; d < weights_.size(); ++d)
      if (sampled_[d] > 0) mixture.loss_factors[d] = weights_[d] / sampled_[d];
    return mixture;
  }

  void feedback(const Feedback& said) override {
    observe(said);
    // Logarithms, and the largest taken away: an exponential of a large excess is no number.
    std::vector<double> moved(weights_.size(), -std::numeric_limits<double>::infinity());
    for (std::size_t d = 0; d < moved.size(); ++d)
      if (even_[d] > 0 && weights_[d] > 0) moved[d] = std::log(weights_[d]) + options_.step * excess_[d];
    const double largest = *std::max_element(moved.begin(), moved.end());
    double sum = 0;
    for (double& weight : moved) sum += weight = std::exp(weight - largest);
    for (std::size_t d = 0; d < moved.size(); ++d) {
      weights_[d] = (1 - options_.smoothing) * moved[d] / sum + options_.smoothing * even_[d];
      sum_[d] += weights_[d];
    }
    ++steps_;
  }

  void state(Archive& archive) override {
    archive("weights", weights_);
    archive("excess", excess_);
    archive("sum", sum_);
    archive("steps", steps_);
  }

  void report(Report& report) const override {
    if (steps_ < 1) return;
    Shares mean, last;
    double change = 0;
    for (std::size_t d = 0; d < names_.size(); ++d) {
      mean.emplace_back(names_[d], sum_[d] / static_cast<double>(steps_));
      last.emplace_back(names_[d], weights_[d]);
      change += std::abs(mean[d].second - last[d].second) / 2;
    }
    report.result("weights", mean);
    report.result("last_weights", last);
    report.metric("weight_change", change);
  }

 private:
  /// The mean clipped excess of each domain that the step has seen.
  void observe(const Feedback& said) {
    if (!said.reference.defined()) throw std::invalid_argument("it was not given the reference model's losses");
    if (!said.losses.sizes().equals(said.reference.sizes()))
      throw std::invalid_argument("the reference model's losses are not of the same tokens");
    const at::Tensor difference = said.losses.to(at::kDouble) - said.reference.to(at::kDouble);
    const at::Tensor excess = difference.clamp_min(0).mean(1).to(at::kCPU).contiguous();
    const at::Tensor domain = said.domain.to(at::kCPU, at::kLong).contiguous();
    const double* values = excess.data_ptr<double>();
    const std::int64_t* domains = domain.data_ptr<std::int64_t>();
    std::vector<double> sums(weights_.size(), 0.0), seen(weights_.size(), 0.0);
    for (std::int64_t b = 0; b < excess.numel(); ++b) {
      if (domains[b] < 0 || domains[b] >= static_cast<std::int64_t>(weights_.size()))
        throw std::invalid_argument("a window's domain is " + std::to_string(domains[b]) + " of " +
                                    std::to_string(weights_.size()));
      if (!std::isfinite(values[b]))
        throw std::runtime_error("a loss at step " + std::to_string(said.step) + " is no finite number");
      sums[static_cast<std::size_t>(domains[b])] += values[b];
      seen[static_cast<std::size_t>(domains[b])] += 1;
    }
    for (std::size_t d = 0; d < sums.size(); ++d)
      if (seen[d] > 0) excess_[d] = sums[d] / seen[d];
  }

  Options options_;
  std::vector<std::string> names_;
  std::vector<double> even_, sampled_;
  std::vector<double> weights_, excess_, sum_;  ///< α, λ, and the sum of α over the steps
  std::int64_t steps_ = 0;
};

}  // namespace

MOIETY_PLUGIN("doremi", "1.0.0", "Weights by excess loss over a reference",
              component<DoReMi>("doremi", 1, "Group DRO on the excess loss over a reference model",
                                "Xie et al., DoReMi, NeurIPS 2023, algorithm 1"));
