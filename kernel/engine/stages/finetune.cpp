// finetune: the whole model and a classification head on the items of a task, or the language model on selected text.
#include "kernel/engine/stages/finetune.h"

#include <ATen/ATen.h>

#include <cmath>

#include "kernel/engine/stages/classification.h"
#include "kernel/engine/stages/stage_model.h"
#include "kernel/engine/stages/verbs.h"

namespace moiety::engine {
namespace {

constexpr Parameter parameters[] = {
    optional<&FinetuneOptions::task>("task", "the task to learn"),
    optional<&FinetuneOptions::data>("data", "instead of a task: text whose next tokens are learned, in whole windows"),
    required<&FinetuneOptions::budget>("budget", "how long: examples, epochs, steps or tokens (of a task at its mean length)"),
    param<&FinetuneOptions::batch>("batch", 32, "items or windows a step").range(1, 1000000).in("items"),
    param<&FinetuneOptions::micro_batch>("micro_batch", 0, "items computed at once, the rest is accumulated; 0: the whole batch")
        .range(0, 1000000)
        .in("items"),
    param<&FinetuneOptions::item_tokens>("item_tokens", 0,
                                         "tokens of an item that are read, its first ones, here and whenever the model is "
                                         "measured; 0: as many as the context holds")
        .range(0, 1000000)
        .in("tokens"),
    param<&FinetuneOptions::learning_rate>("learning_rate", 1e-3, "peak rate").above(0),
    MOIETY_TRAINING_PARAMETERS(FinetuneOptions),
    param<&FinetuneOptions::every_steps>("validation.every_steps", 0, "steps between two validations; 0: only at the end")
        .at_least(0)
        .in("steps"),
    param<&FinetuneOptions::items>("validation.items", 1000, "of a task: validation items, the same for every seed; 0: all")
        .at_least(0)
        .in("items"),
    param<&FinetuneOptions::windows>("validation.windows", 128, "of text: validation windows, in proportion to the domains")
        .at_least(1)
        .in("windows"),
    param<&FinetuneOptions::distill_weight>("distill.weight", 0.5, "share of the loss that is the teacher's").range(0, 1),
    param<&FinetuneOptions::temperature>("distill.temperature", 1.0, "of both distributions where they are compared").above(0)};

constexpr Output metrics[] = {metric("loss", "nats", -1, "training loss of a step, an item"),
                              metric("learning_rate", "", 0, "rate of a step"),
                              metric("valid_loss", "nats", -1, "loss of the validation items, or of the windows, a token"),
                              metric("valid_accuracy", "share", +1, "share of the validation items that are right").with("task"),
                              metric("perplexity", "", -1, "exp of the last valid_loss").with("data")};
constexpr Output results[] = {metric("valid_loss", "nats", -1, "at the end"),
                              metric("valid_accuracy", "share", +1, "at the end").with("task"),
                              metric("perplexity", "", -1, "at the end").with("data"),
                              metric("tokens", "tokens", 0, "trained on"), metric("flops", "", 0, "spent on training")};

/// Of the items that `architecture` reads, at most: how many of them are cut is not known before they are read.
double mean_length(const TaskFacts& facts, const Architecture& architecture) {
  const double mean = static_cast<double>(facts.train_tokens) / static_cast<double>(std::max<std::int64_t>(1, facts.train_items));
  return std::min(mean, static_cast<double>(architecture.longest_item()));
}

constexpr const char* what_to_learn = "either `task` or `data` says what is learned";

Result<StageOutcome> run(StageContext& context) {
  const Job& job = context.job;
  auto read = stage_options<FinetuneOptions>(parameters, job, context.components);
  if (auto status = read.status(); !status) return pass(status);
  const FinetuneOptions& options = read.values;
  if (options.task.empty() == !options.data.given) return fail(ErrorKind::usage, what_to_learn);
  if (options.data.given) return finetune_text(context, options);
  auto task = TrainingTask::open(job.task);
  if (!task) return pass(task);
  const Items& items = task->items(TrainingSplit::train);
  const Items& valid_items = task->items(TrainingSplit::valid);
  if (items.count() == 0 || valid_items.count() == 0)
    return fail(ErrorKind::failed, "the task has no items to train on, or none to validate with");
  auto start = starting_model(context, task->facts().vocabulary, {task->facts().class_count(), options.item_tokens});
  if (!start) return pass(start);
  StageOutcome outcome;
  outcome.model = std::move(start->model);
  Gpt& model = *outcome.model;
  if (auto status = choose_trained(context, options, model); !status) return pass(status);
  const std::int64_t length = model.architecture().longest_item();
  const auto examples =
      examples_of(options.budget, options.batch, items.count(), mean_length(task->facts(), model.architecture()));
  if (!examples) return pass(examples);
  const std::int64_t steps = (*examples + options.batch - 1) / options.batch, micro = options.micro();
  const auto teacher = teacher_of(context, model.architecture());
  if (!teacher) return pass(teacher);

  ItemOrder order(items.count(), Random(static_cast<std::uint64_t>(job.seeds.data)).fork("items"));
  const Random noise = Random(static_cast<std::uint64_t>(job.seeds.noise)).fork("finetune");
  const std::vector<std::int64_t> valid_chosen = fixed_items(valid_items, options.items);
  double valid_loss = 0, valid_accuracy = 0;
  Work work;
  std::int64_t taken = 0;  // examples
  TrainingPlan plan;
  plan.model = &model;
  plan.options = options;
  plan.steps = steps;
  plan.unit = "examples";
  plan.total = *examples;
  plan.done = [&] { return taken; };
  plan.accumulate = [&](std::int64_t step) {
    const auto chosen = order.of_step(step, options.batch, *examples);
    const auto count = static_cast<std::int64_t>(chosen.size());
    const auto pass_over = [&](std::int64_t first, std::int64_t last, ForwardContext& forward) {
      const ItemBatch packed = pack_items(items, length, {chosen.begin() + first, chosen.begin() + last});
      work.add(packed.batch.spans);
      const at::Tensor logits = model.class_logits(packed.batch, forward);
      at::Tensor own;
      if (*teacher) {
        const auto taught = [&] {
          const at::NoGradGuard no_gradient;
          ForwardContext of_teacher;
          return (*teacher)->class_logits(packed.batch, of_teacher);
        }();
        own = distilled_loss(logits, taught, packed.labels, options.distillation());
      } else {
        own = class_loss(logits, packed.labels);
      }
      return PassLoss{own, own.item<double>()};
    };
    const double loss = in_micro_batches(count, micro, step, noise, options, pass_over);
    taken += count;
    return loss;
  };
  plan.state = [&](Archive& archive) {
    archive("stage.taken", taken);
    archive("stage.tokens", work.tokens);
    archive("stage.sequences", work.sequences);
    archive("stage.pairs", work.pairs);
    archive("stage.valid_loss", valid_loss);
    archive("stage.valid_accuracy", valid_accuracy);
  };
  plan.after_step = [&](std::int64_t step) {
    if (step != steps && (options.every_steps == 0 || step % options.every_steps != 0)) return true;
    const ClassScore valid = score(classify(model, valid_items, valid_chosen));
    valid_loss = valid.loss;
    valid_accuracy = valid.accuracy;
    context.series.log("valid_loss", step, valid_loss);
    context.series.log("valid_accuracy", step, valid_accuracy);
    return std::isfinite(valid_loss);
  };

  plan.so_far = [&](StageOutcome& so_far) {
    work.class_read_outs = static_cast<double>(taken);
    const PlannedModel cost = facts_of(model);
    so_far.cost = {work.tokens, training_flops(cost, work), cost.total, cost.active, 0};
    so_far.cost.trainable_parameters = static_cast<double>(model.parameters().trainable());
    if (*teacher) so_far.cost.flops += forward_flops(facts_of(**teacher), work);
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
  outcome.results = {{"valid_loss", valid_loss},
                     {"valid_accuracy", valid_accuracy},
                     {"tokens", outcome.cost.tokens},
                     {"flops", outcome.cost.flops}};
  return outcome;
}

CheckResult check(const CheckContext& context) {
  CheckResult result;
  auto read = stage_options<FinetuneOptions>(parameters, context.job, context.components);
  result.problems = read.problems;
  const FinetuneOptions& options = read.values;
  if (!read.problems.empty()) return result;
  if (options.task.empty() == !options.data.given) {
    result.problems.push_back({"", what_to_learn});
    return result;
  }
  if (options.data.given) {
    if (options.item_tokens == 0) return check_finetune_text(context, options);
    result.problems.push_back({"item_tokens", "text has no items"});
    return result;
  }
  TaskFacts facts;
  if (context.job.task.empty()) {
    facts.classes = {""};  // a task that is not prepared yet: there will be a head, its costs are counted with one class
  } else {
    auto known = TaskFacts::read(context.job.task);
    if (!known) {
      result.problems.push_back({"task", known.error().message});
      return result;
    }
    facts = std::move(*known);
  }
  auto model = planned_starting_model(context, facts.vocabulary, {facts.class_count(), options.item_tokens}, result.problems);
  if (!model) return result;
  check_training(options, *model, result.problems);
  if (model->whole.experts != 0)
    result.problems.push_back(
        {"from", "a sequence of text has a label that says which whole model it runs; items of a task have none"});
  const std::int64_t batch = options.batch;
  const double length = std::max(1.0, mean_length(facts, model->architecture));
  const auto examples = examples_of(options.budget, batch, facts.train_items, length);
  if (!examples) {
    result.problems.push_back({"budget", examples.error().message});
    return result;
  }
  if (options.micro_batch > batch) result.problems.push_back({"micro_batch", "is larger than the batch"});
  Work work;
  work.add_sequences(static_cast<double>(*examples), length);
  work.class_read_outs = static_cast<double>(*examples);
  result.cost = {work.tokens, training_flops(*model, work), model->total, model->active,
                 training_memory(*model, static_cast<double>(options.micro()) * length)};
  const bool distills = context.job.config.contains("distill") && context.job.config["distill"].is_object();
  result.cost.flops += check_teacher(context, distills, facts.class_count(), work, result.problems);
  model->trained_steps = model->schedule_steps = (*examples + batch - 1) / batch;
  result.model = std::move(model);
  return result;
}

}  // namespace

Verb finetune_verb() {
  return {"finetune",
          "trains the whole model: with a classification head on a task, or on selected text",
          false,
          "model",
          {{"from", "model", false}, {"teacher", "model", false}},
          false,
          false,
          {"init", "data", "noise"},
          parameters,
          metrics,
          results,
          &run,
          &check,
          with_training_tables({{"distill", "learning from a `teacher` too"}})};
}

}  // namespace moiety::engine
