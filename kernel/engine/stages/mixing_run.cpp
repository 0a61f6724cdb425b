#include "kernel/engine/stages/mixing_run.h"

#include <ATen/ATen.h>

#include <cmath>
#include <map>
#include <numeric>

namespace moiety::engine {
namespace {

Mixture checked_mixture(const Instance& mixing, std::int64_t step, std::int64_t steps, std::size_t domains) {
  Mixture mixture = call("mixture", mixing, [&] { return mixing.as<MixingScheduler>().mixture({step, steps}); });
  const auto check = [&](const std::vector<double>& numbers, const char* what) {
    if (numbers.size() != domains)
      throw ComponentFailure(mixing.name, "mixture",
                             std::to_string(numbers.size()) + " " + what + "s for " + std::to_string(domains) + " domains");
    for (const double number : numbers)
      if (!std::isfinite(number) || number < 0)
        throw ComponentFailure(mixing.name, "mixture", std::string("a ") + what + " is negative or not finite");
  };
  check(mixture.shares, "share");
  if (!mixture.loss_factors.empty()) check(mixture.loss_factors, "factor");
  return mixture;
}

/// Starts the scheduler and makes the ledger that follows it.
Ledger started_ledger(const Instance& mixing, const MixingRun::Given& given) {
  const auto& counts = given.pool->table.count;
  Domains domains;
  domains.names = given.names;
  domains.windows = counts;
  domains.run_windows = given.steps * given.batch;
  domains.window_tokens = given.pool->context;
  call("start", mixing, [&] { mixing.as<MixingScheduler>().start(domains); });
  if (!call("conserves_budgets", mixing, [&] { return mixing.as<MixingScheduler>().conserves_budgets(); })) return Ledger(counts);
  const Mixture mixture = checked_mixture(mixing, 0, given.steps, counts.size());
  return Ledger(counts, whole_windows(mixture.shares, counts, domains.run_windows));
}

}  // namespace

MixingRun::MixingRun(const Instance& mixing, Given given)
    : mixing_(mixing),
      given_(std::move(given)),
      needs_(call("needs", mixing, [&] { return mixing.component->needs(); })),
      ledger_(started_ledger(mixing, given_)) {}

const Mixture& MixingRun::mixture(std::int64_t step) {
  if (mixture_step_ != step) mixture_ = checked_mixture(mixing_, step, given_.steps, given_.names.size());
  mixture_step_ = step;
  return mixture_;
}

void MixingRun::inspect(std::int64_t step, const Model& model, const Data& data) {
  const auto& scheduler = mixing_.as<MixingScheduler>();
  const std::int64_t every = call("inspect_every", mixing_, [&] { return scheduler.inspect_every(); });
  if (every <= 0 || step % every != 0) return;
  const Random random = given_.random.fork("inspect").fork(static_cast<std::uint64_t>(step));
  call("inspect", mixing_, [&] { mixing_.as<MixingScheduler>().inspect(model, data, {step, given_.steps}, random); });
  mixture_step_ = -1;
}

std::vector<std::int64_t> MixingRun::due(std::int64_t step) { return ledger_.give(mixture(step).shares, given_.batch); }

std::vector<double> MixingRun::factors(const std::vector<std::int64_t>& windows) const {
  const auto& of_domain = mixture_.loss_factors;
  std::vector<double> factors;
  if (of_domain.empty()) return factors;
  double sum = 0;
  for (const std::int64_t window : windows) {
    factors.push_back(of_domain[static_cast<std::size_t>(given_.pool->domain(window))]);
    sum += factors.back();
  }
  if (!(sum > 0)) throw ComponentFailure(mixing_.name, "mixture", "the factors of all windows of a step are 0");
  for (double& factor : factors) factor *= static_cast<double>(windows.size()) / sum;
  return factors;
}

void MixingRun::observe(const at::Tensor& losses, const std::vector<std::int64_t>& windows, const WindowBatch& packed) {
  losses_.push_back(losses);
  at::Tensor domain = at::empty({static_cast<std::int64_t>(windows.size())}, at::kLong);
  for (std::size_t i = 0; i < windows.size(); ++i) domain.data_ptr<std::int64_t>()[i] = given_.pool->domain(windows[i]);
  domains_.push_back(domain);
  if (!needs_.reference_losses || given_.reference == nullptr) return;
  const FixedWindows places = given_.pool->locate(windows);
  references_.push_back(
      token_losses_of(*given_.reference, *given_.reference_labels)(packed.batch, packed.targets, places).view(losses.sizes()));
  reference_tokens_ += static_cast<double>(losses.numel());
}

void MixingRun::feedback(std::int64_t step) {
  if (losses_.empty()) return;
  Feedback said;
  said.step = step;
  said.losses = at::cat(losses_);
  said.domain = at::cat(domains_);
  if (!references_.empty()) said.reference = at::cat(references_);
  losses_.clear();
  domains_.clear();
  references_.clear();
  call("feedback", mixing_, [&] { mixing_.as<MixingScheduler>().feedback(said); });
  mixture_step_ = -1;
}

void MixingRun::state(Archive& ledger, Archive& mixing) {
  ledger_.state(ledger);
  state_of_all(mixing_, mixing);
  if (mixing.reading()) mixture_step_ = -1;
}

PassLoss weighted_loss(const Gpt& model, const at::Tensor& hidden, const at::Tensor& targets, const at::Tensor& expert_of_row,
                       const std::vector<double>& factors) {
  const auto windows = static_cast<std::int64_t>(factors.size());
  const std::int64_t length = targets.size(0) / windows;
  // Windows of one factor at once: there are as many of these as domains.
  std::map<double, std::vector<std::int64_t>> rows;
  for (std::int64_t w = 0; w < windows; ++w) {
    auto& list = rows[factors[static_cast<std::size_t>(w)]];
    for (std::int64_t r = 0; r < length; ++r) list.push_back(w * length + r);
  }
  PassLoss loss;
  loss.trained = at::zeros({}, hidden.options().requires_grad(false));
  for (const auto& [factor, list] : rows) {
    const auto count = static_cast<std::int64_t>(list.size());
    const at::Tensor chosen = at::tensor(list, at::kLong);
    const double share = static_cast<double>(count) / static_cast<double>(windows * length);
    const at::Tensor part = model.read_out_loss(hidden.index_select(0, chosen), targets.index_select(0, chosen),
                                                expert_of_row.defined() ? expert_of_row.index_select(0, chosen) : expert_of_row);
    loss.mean += share * part.item<double>();
    if (factor > 0) loss.trained = loss.trained + part * (factor * share);
  }
  return loss;
}

}  // namespace moiety::engine
