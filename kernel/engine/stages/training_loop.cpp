#include "kernel/engine/stages/training_loop.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "kernel/base/text.h"
#include "kernel/engine/model/model_file.h"

namespace moiety::engine {
namespace {

/// The optimizer's own numbers.
struct Moments {
  at::Tensor first, second;
  explicit Moments(const Gpt& model)
      : first(at::zeros_like(model.parameters().flat_gradient())), second(at::zeros_like(model.parameters().flat_gradient())) {}
};

Status save(StageContext& context, const TrainingPlan& plan, const Moments& moments, std::int64_t step) {
  if (auto status = context.series.flush(); !status) return status;
  StateWriter writer;
  plan.state(writer);
  NamedTensors state = writer.tensors();
  for (const auto& entry : state_of_sites(*plan.model)) state.push_back(entry);
  return context.checkpoints.save(step, context.series.bytes(), tensors_of(*plan.model),
                                  {{"first", moments.first}, {"second", moments.second}}, state);
}

/// Model and components were made from the checkpoint already (see stage_model.h); the rest is put back here.
std::int64_t restore(StageContext& context, const TrainingPlan& plan, Moments& moments) {
  const Checkpoint& checkpoint = *context.resumed;
  for (const auto& [name, tensor] : {std::pair{"first", &moments.first}, std::pair{"second", &moments.second}}) {
    const auto found = checkpoint.moments.find(name);
    if (found == checkpoint.moments.end() || found->second.sizes() != tensor->sizes())
      throw std::runtime_error("the checkpoint's moments do not fit the model");
    tensor->copy_(found->second);
  }
  StateReader reader(checkpoint.state);
  plan.state(reader);
  return checkpoint.step;
}

}  // namespace

Result<TrainingEnd> train(StageContext& context, const TrainingPlan& plan) {
  using Clock = std::chrono::steady_clock;
  ParameterStore& parameters = plan.model->parameters();
  const AdamOptions adam = plan.options.adam();
  const Schedule schedule = plan.options.schedule();
  Moments moments(*plan.model);
  std::int64_t step = context.resumed ? restore(context, plan, moments) : 0;
  auto saved = Clock::now();
  parameters.zero_gradient();
  while (step < plan.steps) {
    const double rate = plan.options.learning_rate * schedule.factor(step, plan.steps);
    const double loss = plan.accumulate(step);
    context.series.log("loss", step + 1, loss);
    context.series.log("learning_rate", step + 1, rate);
    context.protocol.progress(plan.unit, static_cast<double>(plan.done()), static_cast<double>(plan.total), loss, "train");
    if (!std::isfinite(loss))
      return TrainingEnd{Ending::diverged, fmt::format("the loss was {} in step {} of {}", number(loss), step + 1, plan.steps)};
    const at::Tensor& gradient = parameters.flat_gradient();
    const double norm = gradient_norm(gradient.data_ptr<float>(), gradient.numel());
    if (!std::isfinite(norm))
      return TrainingEnd{Ending::diverged, fmt::format("the gradient was not finite in step {} of {}", step + 1, plan.steps)};
    adamw_step(parameters.segments(), parameters.flat_values().data_ptr<float>(), gradient.data_ptr<float>(),
               moments.first.data_ptr<float>(), moments.second.data_ptr<float>(), step + 1, rate, norm, adam);
    for (auto& site : plan.model->sites())
      if (site) site->after_step(step);
    ++step;
    if (!plan.after_step(step))
      return TrainingEnd{Ending::diverged,
                         fmt::format("the validation loss was not finite after step {} of {}", step, plan.steps)};
    const bool stopping = context.stop.load() != 0;
    if (stopping || Clock::now() - saved >= std::chrono::duration<double>(context.job.checkpoint_seconds)) {
      if (auto status = save(context, plan, moments, step); !status) return pass(status);
      saved = Clock::now();
    }
    if (stopping) return TrainingEnd{Ending::interrupted, {}};
  }
  return TrainingEnd{};
}

Result<std::int64_t> examples_of(const Budget& budget, std::int64_t batch, std::int64_t epoch_examples,
                                 double tokens_per_example) {
  const auto refuse = [&](const std::string& why) { return fail(ErrorKind::usage, "budget: " + why); };
  if (!(budget.amount > 0)) return refuse("must be above 0");
  double examples = 0;
  if (budget.unit == "examples")
    examples = budget.amount;
  else if (budget.unit == "steps")
    examples = budget.amount * static_cast<double>(batch);
  else if (budget.unit == "epochs")
    examples = budget.amount * static_cast<double>(epoch_examples);
  else if (budget.unit == "tokens")
    examples = budget.amount / tokens_per_example;
  else
    return refuse("no unit `" + budget.unit + "`; there are tokens, steps, epochs, examples");
  examples = std::ceil(examples - 1e-9);
  if (!(examples < 1e15)) return refuse("is too large");
  return static_cast<std::int64_t>(examples);
}

}  // namespace moiety::engine
