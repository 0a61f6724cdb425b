// extract: one expert of a model with experts, as a dense model.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "kernel/engine/model/dense_expert.h"
#include "kernel/engine/stages/options.h"
#include "kernel/engine/stages/read_models.h"
#include "kernel/engine/stages/selection.h"
#include "kernel/engine/stages/stage_model.h"
#include "kernel/engine/stages/verbs.h"

namespace moiety::engine {
namespace {

struct ExtractOptions {
  std::string expert;
  DataSelection data;
  std::int64_t windows = 0;
};

constexpr Parameter parameters[] = {
    param<&ExtractOptions::expert>(
        "expert", "most-frequent",
        "which one: most-frequent (the cluster most windows of `data` are in), lowest-loss (on them), or "
        "its number as text"),
    optional<&ExtractOptions::data>("data", "the training text that decides"),
    param<&ExtractOptions::windows>("windows", 64, "windows of it that each expert is tried on, for lowest-loss")
        .range(1, 1000000)
        .in("windows")};

constexpr Output results[] = {metric("expert", "", 0, "the number of the one taken")};

std::optional<std::int64_t> number_of_text(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional<std::int64_t>(number) : std::nullopt;
}

bool known_rule(const std::string& rule) {
  return rule == "most-frequent" || rule == "lowest-loss" || number_of_text(rule).has_value();
}

/// The cluster that most windows are in, the first of equally frequent ones.
Result<std::int64_t> most_frequent(const WindowLabels& labels) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const auto& domain : labels.cluster)
    for (const std::int64_t cluster : domain)
      if (cluster >= 0) ++counts[cluster];
  if (counts.empty())
    return fail(ErrorKind::failed, "most-frequent: the model's routers know no clusters of windows",
                "take \"lowest-loss\" or a number");
  return std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; })->first;
}

Result<StageOutcome> run(StageContext& context) {
  const Job& job = context.job;
  auto read = stage_options<ExtractOptions>(parameters, job, context.components);
  if (auto status = read.status(); !status) return pass(status);
  const ExtractOptions& options = read.values;
  const JobInput* from = job.input("from");
  if (from == nullptr) return fail(ErrorKind::usage, "extract needs an input `from`");
  auto model = model_of(*from, context.components);
  if (!model) return pass(model);
  StageOutcome outcome;
  std::int64_t expert = number_of_text(options.expert).value_or(0);
  if (!number_of_text(options.expert)) {
    const auto corpus = TrainingCorpus::open(job.corpus, job.corpus_fraction);
    if (!corpus) return pass(corpus);
    const auto& domains = corpus->facts().domains;
    const auto selection = select_domains(options.data, domains, job);
    if (!selection) return pass(selection);
    const std::int64_t length = (*model)->architecture().context;
    const TokenStreams text = selected(*selection, corpus->streams(TrainingSplit::train), length);
    if (options.expert == "most-frequent") {
      const auto labels =
          window_labels(**model, from->path, context.components, {&text, &selection->names, &domains, length, true}, false);
      if (!labels) return pass(labels);
      const auto found = most_frequent(*labels);
      if (!found) return pass(found);
      expert = *found;
    } else {
      const FixedWindows windows = proportional_windows(text, length, options.windows);
      if (windows.empty()) return fail(ErrorKind::failed, "lowest-loss: the text has no whole window");
      std::int64_t count = (*model)->sites().empty() ? 0 : (*model)->sites().front()->site().experts;
      for (const auto& site : (*model)->sites()) count = std::min(count, site->site().experts);
      double best = 0;
      for (std::int64_t n = 0; n < count; ++n) {
        const auto one = dense_expert(**model, n);
        if (!one) return pass(one);
        const LossSum sum = loss_of(token_losses_of(**one, {}), text, length, windows, 16);
        if (n == 0 || sum.mean() < best) {
          best = sum.mean();
          expert = n;
        }
        Work work;
        work.add_sequences(static_cast<double>(sum.tokens) / static_cast<double>(length), static_cast<double>(length));
        work.language_read_outs = work.tokens;
        outcome.cost.tokens += work.tokens;
        outcome.cost.flops += forward_flops(facts_of(**one), work);
        context.protocol.progress("experts", static_cast<double>(n + 1), static_cast<double>(count), sum.mean(), "extract");
        if (context.stop.load() != 0) {
          outcome.ending = Ending::interrupted;
          return outcome;
        }
      }
    }
  }
  auto dense = dense_expert(**model, expert);
  if (!dense) return pass(dense);
  outcome.model = std::move(*dense);
  const PlannedModel facts = facts_of(*outcome.model);
  outcome.cost.total_parameters = facts.total;
  outcome.cost.active_parameters = facts.active;
  outcome.results = {{"expert", expert}};
  if (auto status = hand_on(from->path, outcome); !status) return pass(status);
  return outcome;
}

CheckResult check(const CheckContext& context) {
  CheckResult result;
  auto read = stage_options<ExtractOptions>(parameters, context.job, context.components);
  result.problems = read.problems;
  if (!known_rule(read.values.expert))
    result.problems.push_back(
        {"expert", fmt::format("`{}` is no rule; there are most-frequent, lowest-loss, and a number", read.values.expert)});
  if (context.job.input("from") == nullptr) result.problems.push_back({"from", "a model with experts is needed"});
  if (!result.problems.empty()) return result;
  const auto model = planned_starting_model(context, 0, {}, result.problems);
  if (!model) return result;
  std::int64_t experts = model->whole.experts;
  for (const auto* sites : {&model->attention, &model->feed_forward})
    for (const auto& site : *sites) experts = site.experts != 0 ? site.experts : experts;
  if (!model->has_experts()) result.problems.push_back({"from", no_experts});
  const auto number = number_of_text(read.values.expert);
  if (number && experts > 0 && (*number < 0 || *number >= experts))
    result.problems.push_back({"expert", fmt::format("there is no expert {}: the model has {}", *number, experts)});
  if (!result.problems.empty()) return result;
  PlannedModel dense = dense_facts(model->architecture);
  result.cost = {0, 0, dense.total, dense.active, training_memory(*model, 0)};
  result.model = std::move(dense);
  return result;
}

}  // namespace

Verb extract_verb() {
  return {"extract",
          "takes one expert out of a model, as a dense model",
          false,
          "model",
          {{"from", "model", true}},
          true,
          false,
          {},
          parameters,
          {},
          results,
          &run,
          &check};
}

}  // namespace moiety::engine
