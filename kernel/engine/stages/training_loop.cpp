#include "kernel/engine/stages/training_loop.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>

#include "kernel/base/files.h"
#include "kernel/base/text.h"
#include "kernel/engine/model/model_file.h"
#include "kernel/engine/stages/artifact.h"
#include "kernel/engine/stages/continuation.h"

namespace moiety::engine {
namespace {

ScheduleState schedule_at(const TrainingPlan& plan, std::int64_t step) {
  return plan.options.state_at(step, plan.whole(), plan.tokens_per_step);
}

void archive_usage(Archive& archive, const Gpt& model) {
  for (const auto& site : model.sites()) archive("usage." + site_prefix(site->site().place, site->site().layer), site->usage());
}

Status save(StageContext& context, const TrainingPlan& plan, const Moments& moments, std::int64_t step) {
  if (auto status = context.series.flush(); !status) return status;
  StateWriter writer;
  plan.state(writer);
  archive_usage(writer, *plan.model);
  NamedTensors state = writer.tensors();
  for (const auto& entry : state_of_sites(*plan.model)) state.push_back(entry);
  return context.checkpoints.save(step, context.series.bytes(), trained_tensors_of(*plan.model),
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
  archive_usage(reader, *plan.model);
  return checkpoint.step;
}

/// Everything a stage that goes on from here needs, published as a whole beside the checkpoint.
Status keep_snapshot(StageContext& context, const TrainingPlan& plan, const Moments& moments, const std::string& point,
                     std::int64_t step) {
  const std::string folder = context.job.work + "/" + snapshot_folder(point), fresh = folder + ".new";
  std::error_code ignored;
  std::filesystem::remove_all(fresh, ignored);
  std::filesystem::remove_all(folder, ignored);
  StageOutcome outcome;
  if (plan.so_far) plan.so_far(outcome);
  StateWriter writer;
  plan.state(writer);
  if (!plan.model->parameters().adapted()) outcome.files[training_file] = training_bytes(*plan.model, moments, writer.tensors());
  outcome.schedule = schedule_at(plan, step).to_json();
  const PlannedModel facts = facts_of(*plan.model);
  outcome.cost.total_parameters = facts.total;
  outcome.cost.active_parameters = facts.active;
  if (auto status = make_folders(context.job.work + "/snapshots"); !status) return status;
  if (auto status = write_artifact(fresh, context.job, outcome, plan.model); !status) return status;
  return publish_folder(fresh, folder);
}

/// Points of this stage that others read, by the step at which they stand.
Result<std::multimap<std::int64_t, std::string>> snapshot_steps(const Job& job, const TrainingPlan& plan) {
  std::multimap<std::int64_t, std::string> points;
  const ScheduleState schedule = schedule_at(plan, plan.steps);
  for (const std::string& point : job.snapshots) {
    const auto step = schedule.step_of(point);
    if (!step) return pass(step);
    if (*step < plan.first_step || *step > plan.steps)
      return fail(ErrorKind::usage, fmt::format("snapshot `{}` lies at step {}; this stage trains from {} to {}", point, *step,
                                                plan.first_step, plan.steps));
    points.emplace(*step, point);
  }
  return points;
}

}  // namespace

Result<TrainingEnd> train(StageContext& context, const TrainingPlan& plan) {
  using Clock = std::chrono::steady_clock;
  ParameterStore& parameters = plan.model->parameters();
  const Schedule schedule = plan.options.schedule();
  Moments moments(*plan.model);
  const auto snapshots = snapshot_steps(context.job, plan);
  if (!snapshots) return pass(snapshots);
  const auto keep_due = [&](std::int64_t at) -> Status {
    const auto [begin, end] = snapshots->equal_range(at);
    for (auto point = begin; point != end; ++point)
      if (auto status = keep_snapshot(context, plan, moments, point->second, at); !status) return status;
    return {};
  };
  std::int64_t step = plan.first_step;
  if (context.resumed) {
    step = restore(context, plan, moments);
  } else {
    if (plan.continued_moments != nullptr)
      if (auto status = load_moments(*plan.model, *plan.continued_moments, moments); !status) return pass(status);
    if (auto status = keep_due(step); !status) return pass(status);
  }
  if (plan.meet) plan.meet(moments);
  auto saved = Clock::now();
  Clock::duration in_steps{};
  const std::int64_t begun = step;
  parameters.zero_gradient();
  while (step < plan.steps) {
    const auto step_begun = Clock::now();
    const double rate = plan.options.peak_rate() * schedule.factor(step, plan.whole());
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
    float *values = parameters.flat_values().data_ptr<float>(), *first = moments.first.data_ptr<float>();
    if (plan.options.is_adam())
      adamw_step(parameters.segments(), values, gradient.data_ptr<float>(), first, moments.second.data_ptr<float>(), step + 1,
                 rate, norm, plan.options.adam());
    else
      sgd_step(parameters.segments(), values, gradient.data_ptr<float>(), first, rate, norm, plan.options.sgd());
    {
      const at::NoGradGuard no_gradient;
      parameters.refresh();
    }
    for (auto& site : plan.model->sites()) {
      site->after_step(step);
      for (const auto& [name, value] : site->take_metrics())
        context.series.log(name, step + 1, value,
                           {{"layer", std::to_string(site->site().layer)}, {"place", name_of(site->site().place)}});
    }
    ++step;
    in_steps += Clock::now() - step_begun;
    if (!plan.after_step(step))
      return TrainingEnd{Ending::diverged,
                         fmt::format("the validation loss was not finite after step {} of {}", step, plan.steps)};
    if (auto status = keep_due(step); !status) return pass(status);
    const bool stopping = context.stop.load() != 0;
    if (stopping || Clock::now() - saved >= std::chrono::duration<double>(context.job.checkpoint_seconds)) {
      if (auto status = save(context, plan, moments, step); !status) return pass(status);
      saved = Clock::now();
    }
    if (stopping) return TrainingEnd{Ending::interrupted};
  }
  TrainingEnd end;
  if (step > begun) end.step_seconds = std::chrono::duration<double>(in_steps).count() / static_cast<double>(step - begun);
  end.schedule = schedule_at(plan, step).to_json();
  for (const auto& site : plan.model->sites())
    if (!site->usage().empty()) end.usage[site_prefix(site->site().place, site->site().layer)] = site->usage();
  if (context.job.keep_optimizer && !parameters.adapted()) {
    StateWriter writer;
    plan.state(writer);
    end.training_state = training_bytes(*plan.model, moments, writer.tensors());
  }
  return end;
}

double in_micro_batches(std::int64_t count, std::int64_t micro, std::int64_t step, const Random& noise,
                        const TrainingOptions& options,
                        const std::function<PassLoss(std::int64_t first, std::int64_t last, ForwardContext& forward)>& pass) {
  double loss = 0;
  for (std::int64_t first = 0; first < count; first += micro) {
    const std::int64_t last = std::min(count, first + micro);
    ForwardContext forward;
    forward.training = true;
    forward.step = step;
    forward.random = noise.fork(static_cast<std::uint64_t>(step)).fork(static_cast<std::uint64_t>(first / micro));
    forward.dropout = options.dropout;
    forward.unit_dropout = options.unit_dropout;
    const PassLoss own = pass(first, last, forward);
    const double share = static_cast<double>(last - first) / static_cast<double>(count);
    at::Tensor total = own.trained;
    for (const at::Tensor& extra : forward.losses) total = total + extra;
    if (total.requires_grad()) (share == 1 ? total : total * share).backward();
    loss += share * own.mean;
  }
  return loss;
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
