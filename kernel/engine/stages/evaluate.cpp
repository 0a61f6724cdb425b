// evaluate: perplexity on text by domain, accuracy on the sets of a task.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernel/base/text.h"
#include "kernel/engine/stages/ensemble.h"
#include "kernel/engine/stages/options.h"
#include "kernel/engine/stages/selection.h"
#include "kernel/engine/stages/stage_model.h"
#include "kernel/engine/stages/verbs.h"

namespace moiety::engine {
namespace {

MOIETY_CHOICE(TextSplit, test, valid, train);

struct EvaluateOptions {
  DataSelection data;
  TextSplit split = TextSplit::test;
  std::optional<std::int64_t> items, windows;
  std::int64_t ignore_first = 0;
  Sets on;
  std::vector<std::string> at;
  Combination ensemble = Combination::mean;

  /// How much text is measured; 0: all.
  std::int64_t text_tokens(const DataSelection& of, std::int64_t context) const {
    return windows ? *windows * context : of.tokens;
  }
  /// What text is measured, under which label of `set`; "" for that of `data`, which is told by domain.
  std::vector<std::pair<std::string, DataSelection>> text() const {
    auto all = on.text;
    if (data.given) all.insert(all.begin(), {"", data});
    return all;
  }
};

constexpr Parameter parameters[] = {
    optional<&EvaluateOptions::data>("data",
                                     "which text; `tokens` are divided evenly over the domains, the first windows of each"),
    param<&EvaluateOptions::split>("data.split", TextSplit::test, "which part of the corpus"),
    optional<&EvaluateOptions::windows>("windows",
                                        "at most so many of the text, divided evenly over the domains; in place of "
                                        "`data.tokens`")
        .range(1, 100000000)
        .in("windows"),
    param<&EvaluateOptions::ignore_first>("ignore_first", 0, "of each window, whose losses are not counted")
        .range(0, 1000000)
        .in("tokens"),
    optional<&EvaluateOptions::on>(
        "on",
        "sets of the task the model was tuned for (test, valid), or label and text: { unseen = { domains = "
        "\"law\" } }"),
    optional<&EvaluateOptions::items>(
        "items", "at most so many items of each set, spread over it, the same for every seed; all when left out")
        .at_least(1)
        .in("items"),
    optional<&EvaluateOptions::at>("at", "points of the training of the stage read, each measured on its own: 10%, 400k tokens"),
    param<&EvaluateOptions::ensemble>("ensemble", Combination::mean, "of several models: the mean of their probabilities")};

constexpr Output metrics[] = {
    metric("perplexity", "", -1, "exp of the mean loss of a domain's windows").over("domain").with("data"),
    metric("loss", "nats", -1, "mean loss of a domain's windows, a token").over("domain").with("data"),
    metric("accuracy", "share", +1, "share of a set's items that are right").over("set").with("on"),
    metric("loss", "nats", -1, "mean loss of a set's items, or of the tokens of its text").over("set").with("on")};

Split split_of(TextSplit split) {
  return split == TextSplit::test ? Split::test : split == TextSplit::valid ? Split::valid : Split::train;
}

std::optional<Split> split_of(const std::string& set) {
  for (const Split split : {Split::train, Split::valid, Split::test})
    if (set == name(split)) return split;
  return std::nullopt;
}

/// What is measured at once: one model, or several as one; and the labels of its rows.
struct Measured {
  Ensemble models;
  registry::Labels labels;

  registry::Labels row(const std::string& axis, const std::string& label) const {
    registry::Labels all = labels;
    all[axis] = label;
    return all;
  }
};

/// The windows of a selection that are measured: (domain, how many).
FixedWindows measured_windows(const TokenStreams& streams, std::int64_t context, std::int64_t tokens) {
  std::vector<std::int64_t> domains;
  FixedWindows all;
  for (std::int64_t d = 0; d < streams.domains(); ++d) {
    domains.push_back(d);
    all.emplace_back(d, streams.windows(d, context));
  }
  if (tokens == 0) return all;
  const std::int64_t wanted = std::min(streams.windows(context), (tokens + context - 1) / context);
  return even_windows(streams, context, wanted, domains);
}

/// `set` "": by domain.
Status measure_text(StageContext& context, const EvaluateOptions& options, const std::string& set, const DataSelection& data,
                    const Measured& measured, StageOutcome& outcome) {
  const Job& job = context.job;
  auto corpus = EvaluationCorpus::open(job.corpus, split_of(options.split), job.corpus_fraction);
  if (!corpus) return pass(corpus);
  const auto& facts = corpus->facts();
  auto selection = select_domains(data, facts.domains, job);
  if (!selection) return pass(selection);
  selection->tokens = 0;  // dealt out evenly below
  const std::int64_t length = measured.models.context();
  const TokenStreams streams = selected(*selection, corpus->streams(), length);
  const auto losses = measured.models.token_losses(
      {&streams, &selection->names, &facts.domains, length, options.split == TextSplit::train}, context.components);
  if (!losses) return pass(losses);
  if (options.ignore_first >= length)
    return fail(ErrorKind::usage, fmt::format("ignore_first: a window has {} tokens, none would be left", length));
  const FixedWindows windows = measured_windows(streams, length, options.text_tokens(data, length));
  std::int64_t count = 0;
  for (const auto& of_domain : windows) count += of_domain.second;
  LossSum total;
  Work work;
  for (const auto& [domain, number] : windows) {
    if (number == 0) continue;
    const LossSum sum = loss_of(*losses, streams, length, domain, number, 16, options.ignore_first);
    const std::string& label = selection->names[static_cast<std::size_t>(domain)];
    if (set.empty()) {
      context.series.log("loss", 0, sum.mean(), measured.row("domain", label));
      context.series.log("perplexity", 0, std::exp(sum.mean()), measured.row("domain", label));
      // Committed at once: what fails later does not lose it.
      if (auto status = context.series.flush(); !status) return status;
    }
    total.loss += sum.loss;
    total.tokens += sum.tokens;
    work.add_sequences(static_cast<double>(number), static_cast<double>(length));
    context.protocol.progress("tokens", static_cast<double>(total.tokens),
                              static_cast<double>(count * (length - options.ignore_first)), total.mean(), "evaluate");
    if (context.stop.load() != 0) {
      outcome.ending = Ending::interrupted;
      break;
    }
    if (!std::isfinite(sum.loss)) {
      outcome.ending = Ending::diverged;
      outcome.error = "the loss on domain " + label + " was not finite";
      break;
    }
  }
  if (!set.empty() && outcome.ending == Ending::done) {
    if (total.tokens == 0) return fail(ErrorKind::failed, "on." + set + ": its text has no whole window");
    context.series.log("loss", 0, total.mean(), measured.row("set", set));
    if (auto status = context.series.flush(); !status) return status;
  }
  work.language_read_outs = static_cast<double>(total.tokens);
  measured.models.add_cost(work, outcome.cost);
  return {};
}

Status measure_items(StageContext& context, const EvaluateOptions& options, const Measured& measured, StageOutcome& outcome) {
  std::string table = "set\tid\tlabel\tprediction\tcorrect\tloss\n";
  Work work;
  for (const auto& set : options.on.names) {
    const auto split = split_of(set);
    if (!split)
      return fail(ErrorKind::failed,
                  fmt::format("the task has no set `{}`; {}", set, suggestion(set, {"test", "valid", "train"})));
    auto task = EvaluationTask::open(context.job.task, *split);
    if (!task) return pass(task);
    if (measured.models.classes() != task->facts().class_count())
      return fail(ErrorKind::failed,
                  fmt::format("the model tells {} classes apart, the task has {}", measured.models.classes(),
                              task->facts().class_count()),
                  "evaluate a stage that was fine-tuned for this task");
    const Items& items = task->items();
    if (items.count() == 0) return fail(ErrorKind::failed, "the set `" + set + "` is empty");
    const std::vector<std::int64_t> chosen = fixed_items(items, options.items.value_or(0));
    const auto results = measured.models.classify(items, chosen, [&](std::int64_t done) {
      context.protocol.progress("examples", static_cast<double>(done), static_cast<double>(chosen.size()), 0, "evaluate");
      return context.stop.load() == 0;
    });
    for (const auto& result : results)
      work.add_sequences(1, static_cast<double>(std::min(measured.models.longest_item(), items.length(result.item))));
    work.class_read_outs += static_cast<double>(results.size());
    if (results.size() < chosen.size()) {
      outcome.ending = Ending::interrupted;
      break;
    }
    const ClassScore sum = score(results);
    context.series.log("accuracy", 0, sum.accuracy, measured.row("set", set));
    context.series.log("loss", 0, sum.loss, measured.row("set", set));
    if (auto status = context.series.flush(); !status) return status;
    if (!std::isfinite(sum.loss)) {
      outcome.ending = Ending::diverged;
      outcome.error = "the loss on the set " + set + " was not finite";
      break;
    }
    const auto& classes = task->facts().classes;
    for (const auto& result : results)
      table +=
          fmt::format("{}\t{}\t{}\t{}\t{}\t{}\n", set, result.item, printable(classes[static_cast<std::size_t>(result.label)]),
                      printable(classes[static_cast<std::size_t>(result.prediction)]), result.label == result.prediction ? 1 : 0,
                      number(result.loss));
  }
  const auto point = measured.labels.find("progress");
  outcome.files[point == measured.labels.end() ? "items.tsv" : fmt::format("items-{}.tsv", point->second)] = std::move(table);
  measured.models.add_cost(work, outcome.cost);
  return {};
}

Result<StageOutcome> run(StageContext& context) {
  auto read = stage_options<EvaluateOptions>(parameters, context.job, context.components);
  if (auto status = read.status(); !status) return pass(status);
  const EvaluateOptions& options = read.values;
  const auto inputs = context.job.all_inputs("from");
  if (inputs.empty()) return fail(ErrorKind::usage, "evaluate needs an input `from`");
  std::vector<std::vector<const JobInput*>> turns;  // measured one after the other
  if (options.at.empty())
    turns.push_back(inputs);
  else
    for (const JobInput* input : inputs) turns.push_back({input});
  StageOutcome outcome;
  for (const auto& turn : turns) {
    auto models = Ensemble::open(turn, context.components);
    if (!models) return pass(models);
    Measured measured{std::move(*models), {}};
    if (!options.at.empty()) measured.labels["progress"] = turn.front()->snapshot;
    for (const auto& [set, data] : options.text()) {
      if (outcome.ending != Ending::done) break;
      if (auto status = measure_text(context, options, set, data, measured, outcome); !status) return pass(status);
    }
    if (!options.on.names.empty() && outcome.ending == Ending::done)
      if (auto status = measure_items(context, options, measured, outcome); !status) return pass(status);
  }
  return outcome;
}

CheckResult check(const CheckContext& context) {
  CheckResult result;
  const Job& job = context.job;
  auto read = stage_options<EvaluateOptions>(parameters, job, context.components);
  result.problems = read.problems;
  const EvaluateOptions& options = read.values;
  if (!options.data.given && options.on.empty() && read.problems.empty())
    result.problems.push_back({"", "says neither which text (`data`) nor which sets (`on`) to measure"});
  for (const auto& set : options.on.names)
    if (!split_of(set))
      result.problems.push_back(
          {"on", fmt::format("the task has no set `{}`; {}", set, suggestion(set, {"test", "valid", "train"}))});
  const auto text = options.text();
  for (const auto& [set, data] : text)
    if (options.windows && data.tokens > 0)
      result.problems.push_back({"windows", fmt::format("says the same as {}.tokens: only one of them can be given",
                                                        set.empty() ? "data" : "on." + set)});
  if ((options.windows || options.ignore_first > 0) && text.empty())
    result.problems.push_back({options.windows ? "windows" : "ignore_first", "is about text, but none is measured"});
  const auto inputs = job.all_inputs("from");
  if (inputs.empty()) result.problems.push_back({"from", "a model to measure is needed"});
  if (!options.at.empty() && options.at.size() != inputs.size())
    result.problems.push_back({"at", fmt::format("{} points, but {} states are read", options.at.size(), inputs.size())});
  if (!result.problems.empty()) return result;
  if (!job.corpus.empty()) {
    const auto facts = CorpusFacts::read(job.corpus);
    for (const auto& [set, data] : text) {
      if (!facts) break;
      if (const auto selection = select_domains(data, facts->domains, job); !selection)
        result.problems.push_back({(set.empty() ? "data" : "on." + set) + ".domains", selection.error().message});
    }
  }
  for (const JobInput* input : inputs) {
    const auto model = planned_of(*input, context);
    if (!model) {
      result.problems.push_back({"from", model.error().message});
      return result;
    }
    if (!options.on.text.empty() && model->architecture.classes > 0)
      result.problems.push_back({"on", "a table selects text, and the model read tells classes apart: name sets of its task"});
    if (!options.on.names.empty() && model->architecture.classes == 0)
      result.problems.push_back({"on", "the model read has no classification head: evaluate a fine-tuned stage"});
    if (!text.empty() && options.ignore_first >= model->architecture.context)
      result.problems.push_back(
          {"ignore_first", fmt::format("a window has {} tokens, none would be left", model->architecture.context)});
    Work work;
    for (const auto& [set, data] : text) {
      const auto length = static_cast<double>(model->architecture.context);
      const auto tokens = static_cast<double>(options.text_tokens(data, model->architecture.context));
      work.add_sequences(std::ceil(tokens / length), length);
    }
    work.language_read_outs = work.tokens;
    result.cost.tokens = work.tokens;
    result.cost.flops += forward_flops(*model, work);
    const bool first = input == inputs.front();
    result.cost.total_parameters = (first || options.at.empty() ? result.cost.total_parameters : 0) + model->total;
    result.cost.active_parameters = (first || options.at.empty() ? result.cost.active_parameters : 0) + model->active;
    result.cost.memory += training_memory(*model, 0);
  }
  return result;
}

}  // namespace

Verb evaluate_verb() {
  return {"evaluate",
          "measures a model on text or on the sets of a task",
          true,
          "none",
          {{"from", "model", true, true}},
          true,
          false,
          {},
          parameters,
          metrics,
          {},
          &run,
          &check};
}

}  // namespace moiety::engine
