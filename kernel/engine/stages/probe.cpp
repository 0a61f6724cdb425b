// probe: what a component finds out about a model on text; nothing of the model changes.
#include "moiety/probe.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstring>

#include "kernel/engine/stages/asked_model.h"
#include "kernel/engine/stages/continuation.h"
#include "kernel/engine/stages/options.h"
#include "kernel/engine/stages/read_models.h"
#include "kernel/engine/stages/selection.h"
#include "kernel/engine/stages/stage_model.h"
#include "kernel/engine/stages/stage_report.h"
#include "kernel/engine/stages/verbs.h"

namespace moiety::engine {
namespace {

MOIETY_CHOICE(ProbedSplit, train, valid, test);

struct ProbeOptions {
  std::shared_ptr<Probe> probe;
  DataSelection data;
  ProbedSplit split = ProbedSplit::train;
  std::vector<std::string> at;
};

constexpr Parameter parameters[] = {
    required<&ProbeOptions::probe>("probe", "what is asked of the model"),
    optional<&ProbeOptions::data>("data", "on which text; all when left out"),
    param<&ProbeOptions::split>("data.split", ProbedSplit::train, "which part of the corpus"),
    optional<&ProbeOptions::at>("at", "points of the training of the stage read, each asked on its own: 10%, 400k tokens")};

Split split_of(ProbedSplit split) {
  return split == ProbedSplit::test ? Split::test : split == ProbedSplit::valid ? Split::valid : Split::train;
}

/// All numbers of a model: its parameters, and what its components remember.
std::vector<at::Tensor> numbers_of(Gpt& model) {
  std::vector<at::Tensor> all{model.parameters().flat_values()};
  for (const auto& entry : state_of_sites(model)) all.push_back(entry.second);
  return all;
}

bool equal_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const at::Tensor x = a[i].contiguous(), y = b[i].contiguous();
    if (x.sizes() != y.sizes() || x.scalar_type() != y.scalar_type()) return false;
    if (std::memcmp(x.data_ptr(), y.data_ptr(), static_cast<std::size_t>(x.numel()) * x.element_size()) != 0) return false;
  }
  return true;
}

/// Of the optimizer whose state was kept with the model; undefined where none was.
Result<at::Tensor> kept_preconditioner(const ModelFile& file, const Gpt& model) {
  if (!file.manifest.value("files", nlohmann::json::object()).contains(training_file)) return at::Tensor();
  const auto state = read_training_state(file);
  if (!state) return pass(state);
  Moments moments(model);
  if (auto status = load_moments(model, state->moments, moments); !status) return pass(status);
  return preconditioner_of(moments, state->schedule);
}

Result<StageOutcome> run(StageContext& context) {
  const Job& job = context.job;
  auto read = stage_options<ProbeOptions>(parameters, job, context.components);
  if (auto status = read.status(); !status) return pass(status);
  const ProbeOptions& options = read.values;
  const auto inputs = job.all_inputs("from");
  if (inputs.empty()) return fail(ErrorKind::usage, "probe needs an input `from`");
  const auto corpus = EvaluationCorpus::open(job.corpus, split_of(options.split), job.corpus_fraction);
  if (!corpus) return pass(corpus);
  const auto training = EvaluationCorpus::open(job.corpus, Split::train, job.corpus_fraction);
  if (!training) return pass(training);
  const auto& facts = corpus->facts();
  const auto selection = select_domains(options.data, facts.domains, job);
  if (!selection) return pass(selection);
  const Instance& probe = read.part("probe");
  const Random random = Random(static_cast<std::uint64_t>(job.seeds.data)).fork("probe");
  StageOutcome outcome;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const JobInput& input = *inputs[i];
    const auto file = read_model_file(input.path);
    if (!file) return pass(file);
    auto model = model_from(*file, context.components);
    if (!model) return pass(model);
    auto preconditioner = kept_preconditioner(*file, **model);
    if (!preconditioner) return pass(preconditioner);
    const std::int64_t length = (*model)->architecture().context;
    if ((*model)->architecture().vocabulary != facts.vocabulary)
      return fail(ErrorKind::failed, "the model reads another vocabulary than the corpus has");
    const WindowPool pool(selected(*selection, corpus->streams(), length), length);
    if (pool.table.windows() == 0) return fail(ErrorKind::failed, "there is no window to ask about");
    const auto labels =
        window_labels(**model, input.path, context.components,
                      {&pool.streams, &selection->names, &facts.domains, length, options.split == ProbedSplit::train}, false);
    if (!labels) return pass(labels);
    const PoolData data(pool, selection->names, [&] {
      return token_counts(selected(*selection, training->streams(), length), length, facts.vocabulary);
    });
    const AskedModel asked(**model, pool, *labels, [&] { return *preconditioner; });
    std::vector<at::Tensor> before;
    for (const at::Tensor& numbers : numbers_of(**model)) before.push_back(numbers.clone());
    registry::Labels more;
    if (!options.at.empty()) more["progress"] = input.snapshot;
    StageReport report(probe, context.series, outcome.results, 0, more);
    call("measure", probe, [&] { probe.as<Probe>().measure(asked, data, report, random); });
    if (!equal_bits(before, numbers_of(**model))) throw ComponentFailure(probe.name, "measure", "it changed the model");
    // Committed at once: what fails later does not lose it.
    if (auto status = context.series.flush(); !status) return pass(status);
    const PlannedModel cost = facts_of(**model);
    Work work;
    work.add_sequences(asked.forward_tokens() / static_cast<double>(length), static_cast<double>(length));
    work.language_read_outs = work.tokens;
    outcome.cost.tokens += work.tokens;
    outcome.cost.flops += forward_flops(cost, work);
    outcome.cost.total_parameters = cost.total;
    outcome.cost.active_parameters = cost.active;
    context.protocol.progress("models", static_cast<double>(i + 1), static_cast<double>(inputs.size()), 0, "probe");
    if (context.stop.load() != 0) {
      outcome.ending = Ending::interrupted;
      return outcome;
    }
  }
  StageReport report(probe, context.series, outcome.results, 0);
  call("finish", probe, [&] { probe.as<Probe>().finish(options.at, report); });
  report_all(probe, context.series, outcome.results, 0);
  return outcome;
}

CheckResult check(const CheckContext& context) {
  CheckResult result;
  const Job& job = context.job;
  auto read = stage_options<ProbeOptions>(parameters, job, context.components);
  result.problems = read.problems;
  const auto inputs = job.all_inputs("from");
  if (inputs.empty()) result.problems.push_back({"from", "a model to ask is needed"});
  if (inputs.size() > 1 && read.values.at.size() != inputs.size())
    result.problems.push_back({"at", fmt::format("{} points, but {} states are read", read.values.at.size(), inputs.size())});
  if (!result.problems.empty()) return result;
  Facts facts;
  if (!job.corpus.empty()) {
    const auto corpus = CorpusFacts::read(job.corpus, job.corpus_fraction);
    if (!corpus) {
      result.problems.push_back({"corpus", corpus.error().message});
      return result;
    }
    const auto selection = select_domains(read.values.data, corpus->domains, job);
    if (!selection) {
      result.problems.push_back({"data", selection.error().message});
      return result;
    }
    facts.domains = selection->names;
  }
  for (const JobInput* input : inputs) {
    const auto model = planned_of(*input, context);
    if (!model) {
      result.problems.push_back({"from", model.error().message});
      return result;
    }
    result.cost = {0, 0, model->total, model->active, training_memory(*model, static_cast<double>(model->architecture.context))};
    if (!job.corpus.empty()) {
      const auto corpus = CorpusFacts::read(job.corpus, job.corpus_fraction);
      const auto selection = select_domains(read.values.data, corpus->domains, job);
      facts.domain_windows =
          windows_of(pieces_of(*selection, corpus->train_tokens, model->architecture.context), model->architecture.context);
    }
  }
  for (const auto& part : read.parts) check_all(part, facts, part.slot, result.problems);
  return result;
}

}  // namespace

Verb probe_verb() {
  return {"probe",
          "what a component finds out about a model on text",
          true,
          "none",
          {{"from", "model", true, true}},
          true,
          false,
          {"data"},
          parameters,
          {},
          {},
          &run,
          &check};
}

}  // namespace moiety::engine
