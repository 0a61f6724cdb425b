// pretrain: next-token prediction on windows of the corpus.
#include "kernel/engine/stages/pretrain.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "kernel/engine/stages/continuation.h"
#include "kernel/engine/stages/mixing_run.h"
#include "kernel/engine/stages/read_models.h"
#include "kernel/engine/stages/sampling.h"
#include "kernel/engine/stages/stage_model.h"
#include "kernel/engine/stages/stage_report.h"
#include "kernel/engine/stages/training_text.h"
#include "kernel/engine/stages/verbs.h"

namespace moiety::engine {
namespace {

constexpr Output metrics[] = {
    metric("loss", "nats", -1, "training loss of a step, a token"), metric("learning_rate", "", 0, "rate of a step"),
    metric("valid_loss", "nats", -1, "loss of the validation windows, a token"),
    metric("perplexity", "", -1, "exp of the last valid_loss"),
    metric("unigram_loss", "nats", 0,
           "loss of the same validation tokens under a unigram model, add-one smoothed, of the tokens read in training")};
constexpr Output results[] = {metric("valid_loss", "nats", -1, "loss of the validation windows at the end"),
                              metric("perplexity", "", -1, "its exp"),
                              metric("unigram_loss", "nats", 0, "see the metric"),
                              metric("tokens", "tokens", 0, "trained on"),
                              metric("flops", "", 0, "spent on training"),
                              result("shares", "share", "of the windows that were read, by domain")};

Result<std::optional<TrainingState>> continued_state(const Job& job, const PretrainOptions& options) {
  if (!options.continues) return std::optional<TrainingState>();
  const JobInput* from = job.input("from");
  if (from == nullptr) return fail(ErrorKind::usage, "continues: there is no stage to go on from; `from` must name one");
  const auto file = read_model_file(from->path);
  if (!file) return pass(file);
  auto state = read_training_state(*file);
  if (!state) return pass(state);
  if (state->schedule.of_adam() != options.is_adam())
    return fail(ErrorKind::usage, fmt::format("optimizer.use: `continues` goes on with that of the stage read, which is {}",
                                              state->schedule.of_adam() ? "adamw" : "sgd"));
  return std::optional<TrainingState>(std::move(*state));
}

/// The model whose losses the scheduler asks for; none where it does not.
struct Reference {
  std::unique_ptr<Gpt> model;
  WindowLabels labels;
};
Result<Reference> open_reference(const StageContext& context, const Instance& mixing, const LabelledText& text,
                                 std::int64_t vocabulary) {
  Reference reference;
  const JobInput* input = context.job.input("mixing.reference");
  if (input == nullptr || !call("needs", mixing, [&] { return mixing.component->needs().reference_losses; })) return reference;
  auto model = model_of(*input, context.components);
  if (!model) return pass(model);
  reference.model = std::move(*model);
  const Architecture& shape = reference.model->architecture();
  if (shape.context < text.context || shape.vocabulary != vocabulary)
    return fail(ErrorKind::failed, "mixing.reference: that model has a shorter context, or another vocabulary");
  auto labels = window_labels(*reference.model, input->path, context.components, text, false);
  if (!labels) return pass(labels);
  reference.labels = std::move(*labels);
  return reference;
}

Result<StageOutcome> run(StageContext& context) {
  const Job& job = context.job;
  auto read = stage_options<PretrainOptions>(pretrain_parameters, job, context.components);
  if (auto status = read.status(); !status) return pass(status);
  const PretrainOptions& options = read.values;
  const auto corpus = TrainingCorpus::open(job.corpus, job.corpus_fraction);
  if (!corpus) return pass(corpus);
  const auto& facts = corpus->facts();
  auto start = starting_model(context, facts.vocabulary, {});
  if (!start) return pass(start);
  StageOutcome outcome;
  outcome.model = std::move(start->model);
  Gpt& model = *outcome.model;
  if (auto status = choose_trained(context, options, model); !status) return pass(status);
  const std::int64_t length = model.architecture().context;
  auto text = TrainingText::open(*corpus, options.data, job, length);
  if (!text) return pass(text);
  WindowPool& pool = text->pool;
  const auto& names = text->selection.names;
  const auto continued = continued_state(job, options);
  if (!continued) return pass(continued);
  const ScheduleState before = *continued ? (*continued)->schedule : ScheduleState{};
  const auto steps = steps_of(options, pool.table.windows(), length, {before.step, 0, before.steps});
  if (!steps) return pass(steps);
  const std::int64_t micro = options.micro();

  const Instance &sampler = read.part("sampler"), &mixing = read.part("mixing");
  const Random data = Random(static_cast<std::uint64_t>(job.seeds.data)).fork("windows");
  const Random noise = Random(static_cast<std::uint64_t>(job.seeds.noise)).fork("pretrain");
  if (auto status = start_sampler(context, *corpus, sampler, pool, steps->schedule * options.batch, data); !status)
    return pass(status);
  const JobInput* from = job.input("from");
  const std::string parent = from == nullptr ? "" : from->path;
  const auto labels =
      window_labels(model, parent, context.components, {&pool.streams, &names, &facts.domains, length, true}, true);
  if (!labels) return pass(labels);
  const auto valid_labels =
      window_labels(model, parent, context.components, {&text->valid, &names, &facts.domains, length, false}, true);
  if (!valid_labels) return pass(valid_labels);
  const auto reference = open_reference(context, mixing, {&pool.streams, &names, &facts.domains, length, true}, facts.vocabulary);
  if (!reference) return pass(reference);
  MixingRun mixed(mixing, {&pool, names, steps->schedule, options.batch, data, reference->model.get(), &reference->labels});
  const PoolData asked_data(pool, names, [&] { return token_counts(pool.streams, length, facts.vocabulary); });
  const Moments* moments = nullptr;
  std::int64_t steps_done = steps->first;
  const AskedModel asked(model, pool, *labels, [&] {
    return moments == nullptr ? at::Tensor() : preconditioner_of(*moments, options.state_at(steps_done));
  });

  std::vector<std::int64_t> counts(static_cast<std::size_t>(facts.vocabulary));  // of the tokens read, for the unigram model
  std::vector<std::int64_t> windows_read(names.size()), read_before(names.size());
  std::int64_t fingerprint = text->fingerprint(sampler, mixing);
  // Where a sampler chooses among all windows there is no position in a domain to go on from, or to leave.
  const bool across = call("across_domains", sampler, [&] { return sampler.as<Sampler>().across_domains(); });
  const auto remembered = [&](Archive& archive) {
    PrefixedArchive of_ledger(archive, "ledger."), of_sampler(archive, "sampler."), of_mixing(archive, "mixing.");
    mixed.state(of_ledger, of_mixing);
    state_of_all(sampler, of_sampler);
    archive("stage.counts", counts);
  };
  const auto& earlier = start->manifest.is_object() ? start->manifest : nlohmann::json::object();
  nlohmann::json position = nlohmann::json::object();
  if (earlier.contains("position") && earlier["position"].is_object() && earlier.value("corpus", "") == job.corpus_hash)
    position = earlier["position"];
  for (std::size_t d = 0; d < names.size(); ++d) read_before[d] = position.value(text->position_name(d), std::int64_t{0});
  if (!context.resumed) {
    std::int64_t of_parent = 0;
    if (*continued) {
      StateReader reader((*continued)->state);
      reader("stage.fingerprint", of_parent);
      if (of_parent == fingerprint) remembered(reader);
    }
    std::vector<std::int64_t> skipped;
    if (of_parent != fingerprint && !across)
      call("draw", sampler, [&] { sampler.as<Sampler>().draw({read_before, 0, micro}, skipped); });
  }

  const FixedWindows valid_windows = proportional_windows(text->valid, length, options.windows);
  double valid_loss = 0;
  std::int64_t taken = 0;
  double reference_before = 0, asked_before = 0;  // tokens that went forward before an interruption
  const auto work = [&] {
    Work done;
    done.add_sequences(static_cast<double>(taken * options.batch), static_cast<double>(length));
    done.language_read_outs = done.tokens;
    done.micro_batches = static_cast<double>(taken * options.passes());
    return done;
  };
  TrainingPlan plan;
  plan.model = &model;
  plan.options = options;
  plan.first_step = steps->first;
  plan.steps = steps->last;
  plan.schedule_steps = steps->schedule;
  plan.tokens_per_step = static_cast<double>(options.batch * length);
  if (*continued) plan.continued_moments = &(*continued)->moments;
  plan.meet = [&](const Moments& of_optimizer) { moments = &of_optimizer; };
  plan.unit = "tokens";
  plan.total = (steps->last - steps->first) * options.batch * length;
  plan.done = [&] { return taken * options.batch * length; };
  plan.accumulate = [&](std::int64_t step) {
    steps_done = step;
    mixed.inspect(step, asked, asked_data);
    const std::vector<std::int64_t> windows = draw_windows(pool, sampler, mixed.due(step), step, micro);
    const std::vector<double> factors = mixed.factors(windows);
    const auto pass_over = [&](std::int64_t first, std::int64_t last, ForwardContext& forward) {
      const std::vector<std::int64_t> some(windows.begin() + first, windows.begin() + last);
      const FixedWindows places = pool.locate(some);
      const WindowBatch packed = pack_windows(pool.streams, length, places);
      const std::int64_t* target = packed.targets.data_ptr<std::int64_t>();
      for (std::int64_t i = 0; i < packed.targets.numel(); ++i) ++counts[static_cast<std::size_t>(target[i])];
      for (const auto& place : places) ++windows_read[static_cast<std::size_t>(place.first)];
      labels->tell(places, forward);
      const at::Tensor hidden = model.hidden(packed.batch, forward);
      if (mixed.wants_losses())
        mixed.observe(model.read_out_losses(hidden.detach(), packed.targets, forward.expert_of_row).view({last - first, length}),
                      some, packed);
      if (!factors.empty())
        return weighted_loss(model, hidden, packed.targets, forward.expert_of_row,
                             {factors.begin() + first, factors.begin() + last});
      const at::Tensor loss = model.read_out_loss(hidden, packed.targets, forward.expert_of_row);
      return PassLoss{loss, loss.item<double>()};
    };
    const double loss = in_micro_batches(options.batch, micro, step, noise, options, pass_over);
    ++taken;
    return loss;
  };
  plan.state = [&](Archive& archive) {
    archive("stage.taken", taken);
    archive("stage.fingerprint", fingerprint);
    archive("stage.windows_read", windows_read);
    double of_reference = reference_before + mixed.reference_tokens(), of_questions = asked_before + asked.forward_tokens();
    archive("stage.reference_tokens", of_reference);
    archive("stage.asked_tokens", of_questions);
    if (archive.reading()) {
      reference_before = of_reference - mixed.reference_tokens();
      asked_before = of_questions - asked.forward_tokens();
    }
    archive("stage.valid_loss", valid_loss);
    remembered(archive);
  };
  plan.after_step = [&](std::int64_t step) {
    mixed.feedback(step - 1);
    if (step != steps->last && (options.every_steps == 0 || step % options.every_steps != 0)) return true;
    valid_loss = loss_of(token_losses_of(model, *valid_labels), text->valid, length, valid_windows, 16).mean();
    context.series.log("valid_loss", step, valid_loss);
    return std::isfinite(valid_loss);
  };
  std::map<std::string, std::string> inherited;
  if (!parent.empty()) {
    auto files = inherited_files(parent);
    if (!files) return pass(files);
    inherited = std::move(*files);
  }
  plan.so_far = [&](StageOutcome& so_far) {
    const PlannedModel cost = facts_of(model);
    const Work done = work();
    so_far.cost = {done.tokens, training_flops(cost, done), cost.total, cost.active, 0};
    so_far.cost.trainable_parameters = static_cast<double>(model.parameters().trainable());
    const auto forward_cost = [&](const PlannedModel& whose, double tokens) {
      Work passes;
      passes.add_sequences(tokens / static_cast<double>(length), static_cast<double>(length));
      passes.language_read_outs = passes.tokens;
      return forward_flops(whose, passes);
    };
    so_far.cost.flops += forward_cost(cost, asked_before + asked.forward_tokens());
    if (reference->model)
      so_far.cost.flops += forward_cost(facts_of(*reference->model), reference_before + mixed.reference_tokens());
    so_far.position = position;
    for (std::size_t d = 0; d < names.size() && !across; ++d)
      so_far.position[text->position_name(d)] = read_before[d] + windows_read[d];
    so_far.files = inherited;
    for (const auto& [name, content] : domain_file(names)) so_far.files[name] = content;
  };

  auto end = train(context, plan);
  if (!end) return pass(end);
  outcome.ending = end->ending;
  outcome.error = end->error;
  plan.so_far(outcome);
  if (outcome.ending != Ending::done) return outcome;
  outcome.schedule = end->schedule;
  if (!end->usage.empty()) outcome.files[usage_file] = end->usage.dump(1);
  outcome.step_seconds = end->step_seconds;
  if (!end->training_state.empty()) outcome.files[training_file] = end->training_state;
  const double unigram = unigram_loss(text->valid, length, valid_windows, counts);
  context.series.log("perplexity", steps->last, std::exp(valid_loss));
  context.series.log("unigram_loss", steps->last, unigram);
  outcome.results = {{"valid_loss", valid_loss},
                     {"perplexity", std::exp(valid_loss)},
                     {"unigram_loss", unigram},
                     {"tokens", outcome.cost.tokens},
                     {"flops", outcome.cost.flops}};
  for (std::size_t d = 0; d < names.size(); ++d)
    outcome.results["shares"][names[d]] =
        static_cast<double>(windows_read[d]) / static_cast<double>(std::max<std::int64_t>(1, taken * options.batch));
  for (const Instance* part : {&mixing, &sampler}) report_all(*part, context.series, outcome.results, steps->last);
  return outcome;
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
          pretrain_parameters,
          metrics,
          results,
          &run,
          &check_pretrain,
          with_training_tables({})};
}

}  // namespace moiety::engine
