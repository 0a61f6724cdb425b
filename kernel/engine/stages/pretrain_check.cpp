// What is wrong with a pretraining before it runs, and what it will cost.
#include "kernel/engine/stages/pretrain.h"
#include "kernel/engine/stages/read_models.h"
#include "kernel/engine/stages/sampling.h"
#include "kernel/engine/stages/stage_model.h"
#include "kernel/engine/stages/training_text.h"

namespace moiety::engine {

Result<Steps> steps_of(const PretrainOptions& options, std::int64_t epoch, std::int64_t context, const Steps& before) {
  if (options.budget.unit == "rest") {
    if (options.continues) return Steps{before.first, before.schedule, before.schedule};
    return fail(ErrorKind::usage, "budget: `rest` is what a continued schedule has left: `continues = true`");
  }
  const auto examples = examples_of(options.budget, options.batch, epoch, static_cast<double>(context));
  if (!examples) return pass(examples);
  const std::int64_t last = before.first + (*examples + options.batch - 1) / options.batch;
  return Steps{before.first, last, std::max(last, before.schedule)};
}

CheckResult check_pretrain(const CheckContext& context) {
  CheckResult result;
  const Job& job = context.job;
  auto read = stage_options<PretrainOptions>(pretrain_parameters, job, context.components);
  result.problems = read.problems;
  const auto facts = planned_corpus(job, result.problems);
  if (!facts) return result;
  auto model = planned_starting_model(context, facts->vocabulary, {}, result.problems);
  if (!model || !read.problems.empty()) return result;
  check_training(read.values, *model, result.problems);
  const std::int64_t length = model->architecture.context;
  const auto text = planned_text(*facts, read.values.data, job, length, result.problems);
  if (!text) return result;
  Facts component_facts;
  component_facts.domains = text->names;
  component_facts.domain_windows = text->windows;
  const bool continues = read.values.continues;
  if (continues && job.input("from") == nullptr)
    result.problems.push_back({"continues", "there is no stage to go on from; `from` must name one"});
  const std::int64_t batch = read.values.batch;
  const Steps before{continues ? model->trained_steps : 0, 0, continues ? model->schedule_steps : 0};
  const auto steps = steps_of(read.values, text->all_windows(), length, before);
  if (!steps) {
    result.problems.push_back({"budget", steps.error().message});
    return result;
  }
  component_facts.run_windows = steps->schedule * batch;
  component_facts.window_tokens = length;
  for (const auto& part : read.parts) {
    if (part.slot == "sampler")
      check_sampler(context, job.corpus.empty() ? nullptr : &*facts, part, read.part("mixing"), component_facts, result.problems);
    else
      check_all(part, component_facts, part.slot, result.problems);
  }
  if (read.values.micro_batch > batch) result.problems.push_back({"micro_batch", "is larger than the batch"});
  Work work;
  work.add_sequences(static_cast<double>((steps->last - steps->first) * batch), static_cast<double>(length));
  work.language_read_outs = work.tokens;
  work.micro_batches = static_cast<double>((steps->last - steps->first) * read.values.passes());
  const auto rows = static_cast<double>(read.values.micro() * length);
  result.cost = {work.tokens, training_flops(*model, work), model->total, model->active, training_memory(*model, rows)};
  const Instance& mixing = read.part("mixing");
  const JobInput* reference = job.input("mixing.reference");
  if (call("needs", mixing, [&] { return mixing.component->needs().reference_losses; })) {
    if (reference == nullptr) {
      result.problems.push_back({"mixing", std::string(mixing.name) + " asks for a reference model, but names none"});
    } else if (const auto planned = planned_of(*reference, context); planned) {
      result.cost.flops += forward_flops(*planned, work);
    }
  }
  model->trained_steps = steps->last;
  model->schedule_steps = steps->schedule;
  model->tokens_per_step = static_cast<double>(batch * length);
  result.model = std::move(model);
  return result;
}

}  // namespace moiety::engine
