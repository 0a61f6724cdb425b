// regress: from the losses of runs on different mixtures, the mixture whose loss should be lowest.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <set>

#include "kernel/engine/model/model_file.h"
#include "kernel/engine/stages/options.h"
#include "kernel/engine/stages/regression.h"
#include "kernel/engine/stages/verbs.h"

namespace moiety::engine {
namespace {

struct RegressOptions {
  std::string target;
  double ridge = 0, concentration = 0;
  std::int64_t samples = 0, best = 0;
};

constexpr Parameter parameters[] = {
    param<&RegressOptions::target>("target", "valid_loss", "the result of each stage read that is to be low"),
    param<&RegressOptions::ridge>("ridge", 1e-4, "penalty on the slopes; shares are numbers from 0 to 1").above(0),
    param<&RegressOptions::samples>("samples", 100000, "random mixtures whose loss is predicted").range(1, 100000000),
    param<&RegressOptions::best>("best", 100, "of these the best, whose mean is the answer").at_least(1),
    param<&RegressOptions::concentration>("concentration", 4.0,
                                          "of the random mixtures around the mean of those read; small: far from it")
        .above(0)};

constexpr Output metrics[] = {metric("rank_correlation", "", +1, "of the losses with those predicted from all other stages"),
                              metric("error", "nats", -1, "root of the mean squared difference between them")};
constexpr Output results[] = {result("weights", "share", "the mixture that is predicted to be best"),
                              result("predicted", "nats", "its predicted loss"),
                              result("slopes", "nats", "predicted change of the loss by a share, from 0 to 1")};

/// Mixtures and losses of the stages read.
struct Runs {
  std::vector<std::string> domains;
  at::Tensor shares, losses;
};

Result<Runs> read_runs(const Job& job, const std::string& target) {
  const auto inputs = job.all_inputs("from");
  std::vector<nlohmann::json> mixtures;
  std::vector<double> losses;
  std::set<std::string> domains;
  for (const JobInput* input : inputs) {
    const auto manifest = read_manifest(input->path);
    if (!manifest) return pass(manifest);
    const auto found = manifest->value("results", nlohmann::json::object());
    const auto shares = found.find("shares"), loss = found.find(target);
    if (shares == found.end() || !shares->is_object())
      return fail(ErrorKind::failed, "a stage read has no result `shares`", "read pretrain stages, each with its own mixture");
    if (loss == found.end() || !loss->is_number())
      return fail(ErrorKind::failed, fmt::format("a stage read has no number as its result `{}`", target));
    for (const auto& [name, share] : shares->items()) domains.insert(name);
    mixtures.push_back(*shares);
    losses.push_back(loss->get<double>());
  }
  Runs runs;
  runs.domains.assign(domains.begin(), domains.end());
  const auto n = static_cast<std::int64_t>(mixtures.size()), k = static_cast<std::int64_t>(domains.size());
  if (n < 3 || k < 2)
    return fail(ErrorKind::failed, fmt::format("{} mixtures of {} domains say nothing; read at least three of two", n, k));
  runs.shares = at::zeros({n, k}, at::kDouble);
  runs.losses = at::tensor(losses, at::kDouble);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t d = 0; d < k; ++d)
      runs.shares[i][d] = mixtures[static_cast<std::size_t>(i)].value(runs.domains[static_cast<std::size_t>(d)], 0.0);
  return runs;
}

Result<StageOutcome> run(StageContext& context) {
  auto read = stage_options<RegressOptions>(parameters, context.job, context.components);
  if (auto status = read.status(); !status) return pass(status);
  const RegressOptions& options = read.values;
  const auto runs = read_runs(context.job, options.target);
  if (!runs) return pass(runs);
  const RidgeFit fit = fit_ridge(runs->shares, runs->losses, options.ridge);
  const std::vector<double> predicted = left_out_predictions(runs->shares, runs->losses, options.ridge);
  const at::Tensor plain = runs->losses.contiguous();
  const std::vector<double> losses(plain.data_ptr<double>(), plain.data_ptr<double>() + plain.numel());
  double squares = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) squares += (losses[i] - predicted[i]) * (losses[i] - predicted[i]);
  context.series.log("rank_correlation", 0, rank_correlation(losses, predicted));
  context.series.log("error", 0, std::sqrt(squares / static_cast<double>(losses.size())));
  const std::vector<double> weights = best_mixture(fit, {options.samples, options.best, options.concentration},
                                                   Random(static_cast<std::uint64_t>(context.job.seeds.data)).fork("regress"));
  StageOutcome outcome;
  outcome.results["predicted"] = fit.predict(weights);
  for (std::size_t d = 0; d < weights.size(); ++d) {
    outcome.results["weights"][runs->domains[d]] = weights[d];
    outcome.results["slopes"][runs->domains[d]] = fit.slope.data_ptr<double>()[d];
  }
  return outcome;
}

CheckResult check(const CheckContext& context) {
  CheckResult result;
  result.problems = stage_options<RegressOptions>(parameters, context.job, context.components).problems;
  if (context.job.all_inputs("from").size() < 3)
    result.problems.push_back({"from", "at least three stages with different mixtures are needed"});
  return result;
}

}  // namespace

Verb regress_verb() {
  return {"regress",
          "predicts losses from mixtures, and the mixture with the lowest",
          false,
          "none",
          {{"from", "model", true, true}},
          false,
          false,
          {"data"},
          parameters,
          metrics,
          results,
          &run,
          &check};
}

}  // namespace moiety::engine
