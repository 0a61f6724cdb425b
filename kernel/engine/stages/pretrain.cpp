// pretrain: next-token prediction on windows of the corpus.
#include <ATen/ATen.h>

#include <cmath>
#include <numeric>

#include "kernel/engine/data/corpus.h"
#include "kernel/engine/stages/ledger.h"
#include "kernel/engine/stages/options.h"
#include "kernel/engine/stages/stage_model.h"
#include "kernel/engine/stages/training_loop.h"
#include "kernel/engine/stages/validation.h"
#include "kernel/engine/stages/verbs.h"
#include "moiety/mixing_scheduler.h"
#include "moiety/sampler.h"

namespace moiety::engine {
namespace {

struct PretrainOptions : TrainingOptions {
  Budget budget;
  std::int64_t batch = 0, micro_batch = 0, every_steps = 0, windows = 0;
  std::shared_ptr<MixingScheduler> mixing;
  std::shared_ptr<Sampler> sampler;
};

constexpr Parameter parameters[] = {
    required<&PretrainOptions::budget>("budget",
                                       "how long: tokens, steps, epochs or examples (windows); whole steps, rounded up"),
    param<&PretrainOptions::batch>("batch", 16, "windows a step").range(1, 1000000).in("windows"),
    param<&PretrainOptions::micro_batch>("micro_batch", 0,
                                         "windows computed at once, the rest is accumulated; 0: the whole batch")
        .range(0, 1000000)
        .in("windows"),
    param<&PretrainOptions::learning_rate>("learning_rate", 2e-3, "AdamW's peak rate").above(0),
    MOIETY_TRAINING_PARAMETERS(PretrainOptions),
    param<&PretrainOptions::mixing>("mixing", "proportional", "what share of the windows each domain gets"),
    param<&PretrainOptions::sampler>("sampler", "uniform", "which windows of a domain come next"),
    param<&PretrainOptions::every_steps>("validation.every_steps", 100, "steps between two validations; 0: only at the end")
        .at_least(0)
        .in("steps"),
    param<&PretrainOptions::windows>("validation.windows", 128, "validation windows, in proportion to the domains' sizes")
        .at_least(1)
        .in("windows")};

constexpr Output metrics[] = {
    metric("loss", "nats", -1, "training loss of a step, a token"), metric("learning_rate", "", 0, "rate of a step"),
    metric("valid_loss", "nats", -1, "loss of the validation windows, a token"),
    metric("perplexity", "", -1, "exp of the last valid_loss"),
    metric("unigram_loss", "nats", 0,
           "loss of the same validation tokens under a unigram model, add-one smoothed, of the tokens read in training")};
constexpr Output results[] = {metric("valid_loss", "nats", -1, "loss of the validation windows at the end"),
                              metric("perplexity", "", -1, "its exp"), metric("unigram_loss", "nats", 0, "see the metric"),
                              metric("tokens", "tokens", 0, "trained on"), metric("flops", "", 0, "spent on training")};

/// Windows of all domains as the sampler counts them.
struct Pool {
  WindowTable table;
  std::vector<std::int64_t> windows;
  Pool(const TokenStreams& streams, std::int64_t context) {
    std::int64_t first = 0;
    for (std::int64_t d = 0; d < streams.domains(); ++d) {
      windows.push_back(streams.windows(d, context));
      table.first.push_back(first);
      table.count.push_back(windows.back());
      first += windows.back();
    }
  }
  std::int64_t total() const { return std::accumulate(windows.begin(), windows.end(), std::int64_t{0}); }
  std::pair<std::int64_t, std::int64_t> locate(std::int64_t window) const {
    for (std::size_t d = windows.size(); d-- > 0;)
      if (window >= table.first[d] && windows[d] > 0) return {static_cast<std::int64_t>(d), window - table.first[d]};
    throw std::out_of_range("no such window");
  }
};

/// The windows of one step, in the order in which the ledger made them due.
FixedWindows draw_windows(const Pool& pool, const Instance& sampler, const std::vector<std::int64_t>& order, std::int64_t step,
                          std::int64_t micro_batch) {
  std::vector<std::int64_t> counts(pool.windows.size()), drawn;
  for (const std::int64_t domain : order) ++counts[static_cast<std::size_t>(domain)];
  call("draw", sampler, [&] { sampler.as<Sampler>().draw({counts, step, micro_batch}, drawn); });
  if (drawn.size() != order.size())
    throw ComponentFailure(sampler.name, "draw",
                           std::to_string(drawn.size()) + " windows were drawn, not " + std::to_string(order.size()));
  std::vector<std::size_t> next(counts.size());
  for (std::size_t d = 1; d < counts.size(); ++d) next[d] = next[d - 1] + static_cast<std::size_t>(counts[d - 1]);
  FixedWindows windows;
  for (const std::int64_t domain : order) {
    const auto d = static_cast<std::size_t>(domain);
    const std::int64_t index = drawn[next[d]++] - pool.table.first[d];
    if (index < 0 || index >= pool.windows[d])
      throw ComponentFailure(sampler.name, "draw", "a window is not of the domain asked for");
    windows.emplace_back(domain, index);
  }
  return windows;
}

std::vector<double> shares_of(const Instance& mixing, std::int64_t step, std::int64_t steps, std::size_t domains) {
  Progress progress;
  progress.step = step;
  progress.steps = steps;
  auto shares = call("mixture", mixing, [&] { return mixing.as<MixingScheduler>().mixture(progress).shares; });
  if (shares.size() != domains)
    throw ComponentFailure(mixing.name, "mixture",
                           std::to_string(shares.size()) + " shares for " + std::to_string(domains) + " domains");
  for (const double share : shares)
    if (!std::isfinite(share) || share < 0) throw ComponentFailure(mixing.name, "mixture", "a share is negative or not finite");
  return shares;
}

Result<StageOutcome> run(StageContext& context) {
  const Job& job = context.job;
  auto read = stage_options<PretrainOptions>(parameters, job, context.components);
  if (auto status = read.status(); !status) return pass(status);
  const PretrainOptions& options = read.values;
  auto corpus = TrainingCorpus::open(job.corpus);
  if (!corpus) return pass(corpus);
  const TokenStreams &train_streams = corpus->streams(TrainingSplit::train),
                     &valid_streams = corpus->streams(TrainingSplit::valid);
  const auto& facts = corpus->facts();
  auto start = starting_model(context, facts.vocabulary, {});
  if (!start) return pass(start);
  StageOutcome outcome;
  outcome.model = std::move(start->model);
  Gpt& model = *outcome.model;
  const std::int64_t length = model.architecture().context;

  const Pool pool(train_streams, length);
  if (pool.total() == 0)
    return fail(ErrorKind::failed, "no domain of the corpus has as many training tokens as the context is long");
  auto examples = examples_of(options.budget, options.batch, pool.total(), static_cast<double>(length));
  if (!examples) return pass(examples);
  const std::int64_t steps = (*examples + options.batch - 1) / options.batch, run_windows = steps * options.batch;
  const std::int64_t micro = options.micro_batch > 0 ? std::min(options.micro_batch, options.batch) : options.batch;

  const Instance &sampler = read.part("sampler"), &mixing = read.part("mixing");
  const Random data = Random(static_cast<std::uint64_t>(job.seeds.data)).fork("windows");
  const Random noise = Random(static_cast<std::uint64_t>(job.seeds.noise)).fork("pretrain");
  call("start", sampler, [&] { sampler.as<Sampler>().start(pool.table, nullptr, data); });
  Domains domains;
  domains.names = facts.domains;
  domains.windows = pool.windows;
  domains.run_windows = run_windows;
  call("start", mixing, [&] { mixing.as<MixingScheduler>().start(domains); });
  Ledger ledger(pool.windows);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(facts.vocabulary));  // of the tokens read, for the unigram model
  std::vector<std::int64_t> before(pool.windows.size());                         // windows read by the stages before
  const auto& earlier = start->manifest.is_object() ? start->manifest : nlohmann::json::object();
  if (earlier.contains("position") && earlier["position"].is_object() && earlier.value("corpus", "") == job.corpus_hash) {
    for (std::size_t d = 0; d < before.size(); ++d) before[d] = earlier["position"].value(facts.domains[d], std::int64_t{0});
    std::vector<std::int64_t> skipped;
    if (!context.resumed) call("draw", sampler, [&] { sampler.as<Sampler>().draw({before, 0, 0}, skipped); });
  }

  const FixedWindows valid_windows = proportional_windows(valid_streams, length, options.windows);
  if (valid_windows.empty())
    return fail(ErrorKind::failed, "no domain of the corpus has as many validation tokens as the context is long");
  double valid_loss = 0;
  Work work;
  std::int64_t taken = 0;
  TrainingPlan plan;
  plan.model = &model;
  plan.options = options;
  plan.steps = steps;
  plan.unit = "tokens";
  plan.total = run_windows * length;
  plan.done = [&] { return taken * options.batch * length; };
  plan.accumulate = [&](std::int64_t step) {
    const auto order = ledger.give(shares_of(mixing, step, steps, pool.windows.size()), options.batch);
    const FixedWindows windows = draw_windows(pool, sampler, order, step, micro);
    double loss = 0;
    for (std::int64_t first = 0; first < options.batch; first += micro) {
      const std::int64_t last = std::min(options.batch, first + micro);
      const WindowBatch packed =
          pack_windows(train_streams, length, FixedWindows(windows.begin() + first, windows.begin() + last));
      const std::int64_t* target = packed.targets.data_ptr<std::int64_t>();
      for (std::int64_t i = 0; i < packed.targets.numel(); ++i) ++counts[static_cast<std::size_t>(target[i])];
      ForwardContext forward;
      forward.training = true;
      forward.step = step;
      forward.random = noise.fork(static_cast<std::uint64_t>(step)).fork(static_cast<std::uint64_t>(first / micro));
      forward.dropout = options.dropout;
      const double share = static_cast<double>(last - first) / static_cast<double>(options.batch);
      const at::Tensor language = model.language_loss(packed.batch, packed.targets, forward);
      at::Tensor total = language;
      for (const at::Tensor& extra : forward.losses) total = total + extra;
      (share == 1 ? total : total * share).backward();
      loss += share * language.item<double>();
    }
    ++taken;
    return loss;
  };
  plan.state = [&](Archive& archive) {
    archive("stage.taken", taken);
    archive("stage.counts", counts);
    archive("stage.valid_loss", valid_loss);
    PrefixedArchive of_ledger(archive, "ledger."), of_sampler(archive, "sampler."), of_mixing(archive, "mixing.");
    ledger.state(of_ledger);
    state_of_all(sampler, of_sampler);
    state_of_all(mixing, of_mixing);
  };
  plan.after_step = [&](std::int64_t step) {
    if (step != steps && (options.every_steps == 0 || step % options.every_steps != 0)) return true;
    LossSum sum;
    for (const auto& [domain, count] : valid_windows) {
      const LossSum part = loss_of(model, valid_streams, domain, count, 16);
      sum.loss += part.loss;
      sum.tokens += part.tokens;
    }
    valid_loss = sum.mean();
    context.series.log("valid_loss", step, valid_loss);
    return std::isfinite(valid_loss);
  };

  auto end = train(context, plan);
  if (!end) return pass(end);
  outcome.ending = end->ending;
  outcome.error = end->error;
  work.add_sequences(static_cast<double>(taken * options.batch), static_cast<double>(length));
  work.language_read_outs = work.tokens;
  const PlannedModel cost = facts_of(model);
  outcome.cost = {work.tokens, training_flops(cost, work), cost.total, cost.active, 0};
  if (outcome.ending != Ending::done) return outcome;
  const double unigram = unigram_loss(valid_streams, length, valid_windows, counts);
  context.series.log("perplexity", steps, std::exp(valid_loss));
  context.series.log("unigram_loss", steps, unigram);
  outcome.results = {{"valid_loss", valid_loss},
                     {"perplexity", std::exp(valid_loss)},
                     {"unigram_loss", unigram},
                     {"tokens", outcome.cost.tokens},
                     {"flops", outcome.cost.flops}};
  for (std::size_t d = 0; d < facts.domains.size(); ++d) outcome.position[facts.domains[d]] = before[d] + ledger.given()[d];
  return outcome;
}

CheckResult check(const CheckContext& context) {
  CheckResult result;
  auto read = stage_options<PretrainOptions>(parameters, context.job, context.components);
  result.problems = read.problems;
  CorpusFacts facts;
  if (!context.job.corpus.empty()) {
    auto known = CorpusFacts::read(context.job.corpus);
    if (!known) {
      result.problems.push_back({"corpus", known.error().message});
      return result;
    }
    facts = std::move(*known);
  }
  auto model = planned_starting_model(context, facts.vocabulary, {}, result.problems);
  if (!model || !read.problems.empty()) return result;
  const std::int64_t length = model->architecture.context;
  Facts component_facts;
  component_facts.domains = facts.domains;
  std::int64_t epoch = 0;
  for (const std::int64_t tokens : facts.train_tokens) {
    component_facts.domain_windows.push_back(std::max<std::int64_t>(0, (tokens - 1) / length));
    epoch += component_facts.domain_windows.back();
  }
  auto examples = examples_of(read.values.budget, read.values.batch, epoch, static_cast<double>(length));
  if (!examples) {
    result.problems.push_back({"budget", examples.error().message});
    return result;
  }
  const std::int64_t batch = read.values.batch, steps = (*examples + batch - 1) / batch;
  component_facts.run_windows = steps * batch;
  for (const auto& part : read.parts) check_all(part, component_facts, part.slot, result.problems);
  if (read.values.micro_batch > batch) result.problems.push_back({"micro_batch", "is larger than the batch"});
  Work work;
  work.add_sequences(static_cast<double>(steps * batch), static_cast<double>(length));
  work.language_read_outs = work.tokens;
  const double rows = static_cast<double>((read.values.micro_batch > 0 ? read.values.micro_batch : batch) * length);
  result.cost = {work.tokens, training_flops(*model, work), model->total, model->active, training_memory(*model, rows)};
  result.model = std::move(model);
  return result;
}

}  // namespace

Verb pretrain_verb() {
  return {"pretrain",
          "trains a language model on windows of the corpus",
          false,
          "model",
          {{"from", "model", false}},
          true,
          false,
          {"init", "data", "noise"},
          parameters,
          std::size(parameters),
          metrics,
          std::size(metrics),
          results,
          std::size(results),
          &run,
          &check};
}

}  // namespace moiety::engine
