// evaluate: perplexity on text by domain, accuracy on the sets of a task.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernel/base/text.h"
#include "kernel/engine/data/corpus.h"
#include "kernel/engine/stages/classification.h"
#include "kernel/engine/stages/options.h"
#include "kernel/engine/stages/stage_model.h"
#include "kernel/engine/stages/validation.h"
#include "kernel/engine/stages/verbs.h"

namespace moiety::engine {
namespace {

MOIETY_CHOICE(TextSplit, test, valid, train);

struct EvaluateOptions {
  TextSplit split = TextSplit::test;
  std::optional<std::int64_t> tokens, items;
  std::vector<std::string> domains, on;
};

constexpr Parameter parameters[] = {
    param<&EvaluateOptions::split>("data.split", TextSplit::test, "which part of the corpus"),
    optional<&EvaluateOptions::tokens>(
        "data.tokens", "how many tokens, divided evenly over the domains: the first windows of each; all when left out")
        .at_least(1)
        .in("tokens"),
    optional<&EvaluateOptions::domains>("data.domains", "which domains; all when left out"),
    optional<&EvaluateOptions::on>("on", "sets of the task the model was tuned for: test, valid"),
    optional<&EvaluateOptions::items>(
        "items", "at most so many items of each set, spread over it, the same for every seed; all when left out")
        .at_least(1)
        .in("items")};

constexpr Output metrics[] = {
    metric("perplexity", "", -1, "exp of the mean loss of a domain's windows").over("domain").with("data"),
    metric("loss", "nats", -1, "mean loss of a domain's windows, a token").over("domain").with("data"),
    metric("accuracy", "share", +1, "share of a set's items that are right").over("set").with("on"),
    metric("loss", "nats", -1, "mean loss of a set's items").over("set").with("on")};

Split split_of(TextSplit split) {
  return split == TextSplit::test ? Split::test : split == TextSplit::valid ? Split::valid : Split::train;
}

std::optional<Split> split_of(const std::string& set) {
  for (const Split split : {Split::train, Split::valid, Split::test})
    if (set == name(split)) return split;
  return std::nullopt;
}

Status measure_text(StageContext& context, const EvaluateOptions& options, const Gpt& model, StageOutcome& outcome, Work& work) {
  auto corpus = EvaluationCorpus::open(context.job.corpus, split_of(options.split));
  if (!corpus) return pass(corpus);
  const auto& names = corpus->facts().domains;
  std::vector<std::int64_t> chosen;
  for (std::size_t d = 0; d < names.size(); ++d)
    if (options.domains.empty() || std::find(options.domains.begin(), options.domains.end(), names[d]) != options.domains.end())
      chosen.push_back(static_cast<std::int64_t>(d));
  for (const auto& wanted : options.domains)
    if (std::find(names.begin(), names.end(), wanted) == names.end())
      return fail(ErrorKind::failed, fmt::format("the corpus has no domain `{}`; {}", wanted, suggestion(wanted, names)));
  const std::int64_t length = model.architecture().context;
  std::int64_t count = 0;
  for (const std::int64_t domain : chosen) count += corpus->streams().windows(domain, length);
  if (options.tokens) count = std::min(count, (*options.tokens + length - 1) / length);
  const FixedWindows windows = options.tokens ? even_windows(corpus->streams(), length, count, chosen) : [&] {
    FixedWindows all;
    for (const std::int64_t domain : chosen) all.emplace_back(domain, corpus->streams().windows(domain, length));
    return all;
  }();
  LossSum total;
  double done = 0;
  for (const auto& [domain, number] : windows) {
    if (number == 0) continue;
    const LossSum sum = loss_of(model, corpus->streams(), domain, number, 16);
    const std::string& label = names[static_cast<std::size_t>(domain)];
    context.series.log("loss", 0, sum.mean(), {{"domain", label}});
    context.series.log("perplexity", 0, std::exp(sum.mean()), {{"domain", label}});
    // Committed at once: what fails later does not lose it.
    if (auto status = context.series.flush(); !status) return status;
    total.loss += sum.loss;
    total.tokens += sum.tokens;
    work.add_sequences(static_cast<double>(number), static_cast<double>(length));
    work.language_read_outs += static_cast<double>(sum.tokens);
    done += static_cast<double>(sum.tokens);
    context.protocol.progress("tokens", done, static_cast<double>(count * length), total.mean(), "evaluate");
    if (context.stop.load() != 0) {
      outcome.ending = Ending::interrupted;
      return {};
    }
    if (!std::isfinite(sum.loss)) {
      outcome.ending = Ending::diverged;
      outcome.error = "the loss on domain " + label + " was not finite";
      return {};
    }
  }
  return {};
}

Status measure_items(StageContext& context, const EvaluateOptions& options, const Gpt& model, StageOutcome& outcome, Work& work) {
  std::string table = "set\tid\tlabel\tprediction\tcorrect\tloss\n";
  for (const auto& set : options.on) {
    const auto split = split_of(set);
    if (!split)
      return fail(ErrorKind::failed,
                  fmt::format("the task has no set `{}`; {}", set, suggestion(set, {"test", "valid", "train"})));
    auto task = EvaluationTask::open(context.job.task, *split);
    if (!task) return pass(task);
    if (model.architecture().classes != task->facts().class_count())
      return fail(ErrorKind::failed,
                  fmt::format("the model tells {} classes apart, the task has {}", model.architecture().classes,
                              task->facts().class_count()),
                  "evaluate a stage that was fine-tuned for this task");
    const Items& items = task->items();
    if (items.count() == 0) return fail(ErrorKind::failed, "the set `" + set + "` is empty");
    const std::vector<std::int64_t> chosen = fixed_items(items, options.items.value_or(0));
    const auto results = classify(model, items, chosen, [&](std::int64_t done) {
      context.protocol.progress("examples", static_cast<double>(done), static_cast<double>(chosen.size()), 0, "evaluate");
      return context.stop.load() == 0;
    });
    for (const auto& result : results)
      work.add_sequences(1, static_cast<double>(std::min(model.architecture().longest_item(), items.length(result.item))));
    work.class_read_outs += static_cast<double>(results.size());
    if (results.size() < chosen.size()) {
      outcome.ending = Ending::interrupted;
      return {};
    }
    const ClassScore sum = score(results);
    context.series.log("accuracy", 0, sum.accuracy, {{"set", set}});
    context.series.log("loss", 0, sum.loss, {{"set", set}});
    if (auto status = context.series.flush(); !status) return status;
    if (!std::isfinite(sum.loss)) {
      outcome.ending = Ending::diverged;
      outcome.error = "the loss on the set " + set + " was not finite";
      return {};
    }
    const auto& classes = task->facts().classes;
    for (const auto& result : results)
      table +=
          fmt::format("{}\t{}\t{}\t{}\t{}\t{}\n", set, result.item, printable(classes[static_cast<std::size_t>(result.label)]),
                      printable(classes[static_cast<std::size_t>(result.prediction)]), result.label == result.prediction ? 1 : 0,
                      number(result.loss));
  }
  outcome.files["items.tsv"] = std::move(table);
  return {};
}

Result<StageOutcome> run(StageContext& context) {
  auto read = stage_options<EvaluateOptions>(parameters, context.job, context.components);
  if (auto status = read.status(); !status) return pass(status);
  if (context.job.input("from") == nullptr) return fail(ErrorKind::usage, "evaluate needs an input `from`");
  auto start = starting_model(context, 0, {});
  if (!start) return pass(start);
  const Gpt& model = *start->model;
  StageOutcome outcome;
  Work work;
  if (context.job.config.contains("data") && !context.job.config["data"].is_null())
    if (auto status = measure_text(context, read.values, model, outcome, work); !status) return pass(status);
  if (!read.values.on.empty() && outcome.ending == Ending::done)
    if (auto status = measure_items(context, read.values, model, outcome, work); !status) return pass(status);
  const PlannedModel facts = facts_of(model);
  outcome.cost = {work.tokens, forward_flops(facts, work), facts.total, facts.active, 0};
  return outcome;
}

CheckResult check(const CheckContext& context) {
  CheckResult result;
  auto read = stage_options<EvaluateOptions>(parameters, context.job, context.components);
  result.problems = read.problems;
  const bool text = context.job.config.contains("data") && !context.job.config["data"].is_null();
  if (!text && read.values.on.empty())
    result.problems.push_back({"", "says neither which text (`data`) nor which sets (`on`) to measure"});
  for (const auto& set : read.values.on)
    if (!split_of(set))
      result.problems.push_back(
          {"on", fmt::format("the task has no set `{}`; {}", set, suggestion(set, {"test", "valid", "train"}))});
  if (context.job.input("from") == nullptr) result.problems.push_back({"from", "a model to measure is needed"});
  if (!result.problems.empty()) return result;
  const auto model = planned_starting_model(context, 0, {}, result.problems);
  if (!model) return result;
  if (!read.values.on.empty() && model->architecture.classes == 0)
    result.problems.push_back({"on", "the model read has no classification head: evaluate a fine-tuned stage"});
  Work work;
  if (text && !context.job.corpus.empty()) {
    const auto facts = CorpusFacts::read(context.job.corpus);
    if (facts)
      for (const auto& wanted : read.values.domains)
        if (std::find(facts->domains.begin(), facts->domains.end(), wanted) == facts->domains.end())
          result.problems.push_back(
              {"data.domains", fmt::format("the corpus has no domain `{}`; {}", wanted, suggestion(wanted, facts->domains))});
  }
  if (text && read.values.tokens) {
    const auto length = static_cast<double>(model->architecture.context);
    work.add_sequences(std::ceil(static_cast<double>(*read.values.tokens) / length), length);
    work.language_read_outs = work.tokens;
  }
  result.cost = {work.tokens, forward_flops(*model, work), model->total, model->active, training_memory(*model, 0)};
  return result;
}

}  // namespace

Verb evaluate_verb() {
  return {"evaluate",
          "measures a model on text or on the sets of a task",
          true,
          "none",
          {{"from", "model", true}},
          true,
          false,
          {},
          parameters,
          std::size(parameters),
          metrics,
          std::size(metrics),
          nullptr,
          0,
          &run,
          &check};
}

}  // namespace moiety::engine
