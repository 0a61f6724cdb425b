// Fine-tuning a language model on selected text: every window once an epoch, in an order that the seed says.
#include <ATen/ATen.h>

#include <cmath>

#include "kernel/engine/stages/finetune.h"
#include "kernel/engine/stages/stage_model.h"
#include "kernel/engine/stages/training_text.h"

namespace moiety::engine {
namespace {

/// Tokens and their cost: of the student's training, and of the teacher's forward passes.
Work window_work(double windows, double length) {
  Work work;
  work.add_sequences(windows, length);
  work.language_read_outs = work.tokens;
  return work;
}

}  // namespace

Result<StageOutcome> finetune_text(StageContext& context, const FinetuneOptions& options) {
  const Job& job = context.job;
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
  const auto text = TrainingText::open(*corpus, options.data, job, length);
  if (!text) return pass(text);
  const WindowPool& pool = text->pool;
  const TokenStreams& valid = text->valid;
  const auto examples = examples_of(options.budget, options.batch, pool.table.windows(), static_cast<double>(length));
  if (!examples) return pass(examples);
  const auto teacher = teacher_of(context, model.architecture());
  if (!teacher) return pass(teacher);
  const auto labels_of = [&](const Gpt& whose, const char* input, const TokenStreams& streams, bool training) {
    const JobInput* read = job.input(input);
    return window_labels(whose, read == nullptr ? "" : read->path, context.components,
                         {&streams, &text->selection.names, &facts.domains, length, training}, false);
  };
  const auto labels = labels_of(model, "from", pool.streams, true), valid_labels = labels_of(model, "from", valid, false);
  if (!labels) return pass(labels);
  if (!valid_labels) return pass(valid_labels);
  const auto teacher_labels = labels_of(*teacher ? **teacher : model, *teacher ? "teacher" : "from", pool.streams, true);
  if (!teacher_labels) return pass(teacher_labels);

  const std::int64_t steps = (*examples + options.batch - 1) / options.batch, micro = options.micro();
  ItemOrder order(pool.table.windows(), Random(static_cast<std::uint64_t>(job.seeds.data)).fork("items"));
  const Random noise = Random(static_cast<std::uint64_t>(job.seeds.noise)).fork("finetune");
  const FixedWindows valid_windows = proportional_windows(valid, length, options.windows);
  double valid_loss = 0;
  std::int64_t taken = 0;  // examples
  TrainingPlan plan;
  plan.model = &model;
  plan.options = options;
  plan.steps = steps;
  plan.tokens_per_step = static_cast<double>(options.batch * length);
  plan.unit = "tokens";
  plan.total = *examples * length;
  plan.done = [&] { return taken * length; };
  plan.accumulate = [&](std::int64_t step) {
    const auto chosen = order.of_step(step, options.batch, *examples);
    const auto count = static_cast<std::int64_t>(chosen.size());
    const auto pass_over = [&](std::int64_t first, std::int64_t last, ForwardContext& forward) {
      const FixedWindows places = pool.locate({chosen.begin() + first, chosen.begin() + last});
      const WindowBatch packed = pack_windows(pool.streams, length, places);
      labels->tell(places, forward);
      const at::Tensor hidden = model.hidden(packed.batch, forward);
      at::Tensor own;
      if (*teacher) {
        const auto taught = [&] {
          const at::NoGradGuard no_gradient;
          ForwardContext of_teacher;
          teacher_labels->tell(places, of_teacher);
          const at::Tensor seen = (*teacher)->hidden(packed.batch, of_teacher);
          return (*teacher)->read_out(seen, of_teacher.expert_of_row);
        }();
        own = distilled_loss(model.read_out(hidden, forward.expert_of_row), taught, packed.targets, options.distillation());
      } else {
        own = model.read_out_loss(hidden, packed.targets, forward.expert_of_row);
      }
      return PassLoss{own, own.item<double>()};
    };
    const double loss = in_micro_batches(count, micro, step, noise, options, pass_over);
    taken += count;
    return loss;
  };
  plan.state = [&](Archive& archive) {
    archive("stage.taken", taken);
    archive("stage.valid_loss", valid_loss);
  };
  plan.after_step = [&](std::int64_t step) {
    if (step != steps && (options.every_steps == 0 || step % options.every_steps != 0)) return true;
    valid_loss = loss_of(token_losses_of(model, *valid_labels), valid, length, valid_windows, 16).mean();
    context.series.log("valid_loss", step, valid_loss);
    return std::isfinite(valid_loss);
  };
  std::map<std::string, std::string> inherited;
  if (const JobInput* from = job.input("from")) {
    auto files = inherited_files(from->path);
    if (!files) return pass(files);
    inherited = std::move(*files);
  }
  plan.so_far = [&](StageOutcome& so_far) {
    const Work work = window_work(static_cast<double>(taken), static_cast<double>(length));
    const PlannedModel cost = facts_of(model);
    so_far.cost = {work.tokens, training_flops(cost, work), cost.total, cost.active, 0};
    so_far.cost.trainable_parameters = static_cast<double>(model.parameters().trainable());
    if (*teacher) so_far.cost.flops += forward_flops(facts_of(**teacher), work);
    so_far.files = inherited;
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
  context.series.log("perplexity", steps, std::exp(valid_loss));
  outcome.results = {{"valid_loss", valid_loss},
                     {"perplexity", std::exp(valid_loss)},
                     {"tokens", outcome.cost.tokens},
                     {"flops", outcome.cost.flops}};
  return outcome;
}

CheckResult check_finetune_text(const CheckContext& context, const FinetuneOptions& options) {
  CheckResult result;
  const Job& job = context.job;
  const auto facts = planned_corpus(job, result.problems);
  if (!facts) return result;
  auto model = planned_starting_model(context, facts->vocabulary, {}, result.problems);
  if (!model) return result;
  check_training(options, *model, result.problems);
  const std::int64_t length = model->architecture.context;
  const auto text = planned_text(*facts, options.data, job, length, result.problems);
  if (!text) return result;
  const auto examples = examples_of(options.budget, options.batch, text->all_windows(), static_cast<double>(length));
  if (!examples) {
    result.problems.push_back({"budget", examples.error().message});
    return result;
  }
  if (options.micro_batch > options.batch) result.problems.push_back({"micro_batch", "is larger than the batch"});
  const Work work = window_work(static_cast<double>(*examples), static_cast<double>(length));
  result.cost = {work.tokens, training_flops(*model, work), model->total, model->active,
                 training_memory(*model, static_cast<double>(options.micro() * length))};
  const bool distills = job.config.contains("distill") && job.config["distill"].is_object();
  result.cost.flops += check_teacher(context, distills, 0, work, result.problems);
  model->trained_steps = model->schedule_steps = (*examples + options.batch - 1) / options.batch;
  model->tokens_per_step = static_cast<double>(options.batch * length);
  result.model = std::move(model);
  return result;
}

}  // namespace moiety::engine
