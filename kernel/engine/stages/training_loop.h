// What pretrain and finetune share: steps of AdamW with schedule and clipping, checkpoints, resuming, progress, divergence,
// signals.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_TRAINING_LOOP_H_
#define MOIETY_KERNEL_ENGINE_STAGES_TRAINING_LOOP_H_

#include <cstdint>
#include <functional>
#include <string>

#include "kernel/engine/checkpoint/state_archive.h"
#include "kernel/engine/stages/continuation.h"
#include "kernel/engine/stages/stage.h"
#include "kernel/engine/stages/training_options.h"

namespace moiety::engine {

struct TrainingPlan {
  Gpt* model = nullptr;
  TrainingOptions options;
  std::int64_t first_step = 0;      ///< steps done before this stage, where it continues another one's schedule
  std::int64_t steps = 0;           ///< after which it ends, those before included
  std::int64_t schedule_steps = 0;  ///< of the whole schedule; 0: `steps`
  double tokens_per_step = 0;
  const TensorMap* continued_moments = nullptr;  ///< "first.NAME", …: where the optimizer goes on; null: fresh
  std::string unit;                              ///< of the progress
  std::int64_t total = 0;                        ///< in that unit
  /// Forward and backward passes of one step, its gradients added up; gives the mean loss.
  std::function<double(std::int64_t step)> accumulate;
  std::function<std::int64_t()> done;  ///< in the progress's unit, after the last step
  /// Reads or writes everything else that the next step depends on, or that results will be made of.
  std::function<void(Archive&)> state;
  /// After step `step` (from 1) was taken: validation where it is due. Gives false when a value was not finite.
  std::function<bool(std::int64_t step)> after_step;
  /// Told the optimizer's moments before the first step; they live as long as train() runs. May be empty.
  std::function<void(const Moments& moments)> meet;
  /// Position and cost so far, for a snapshot.
  std::function<void(StageOutcome&)> so_far;

  std::int64_t whole() const { return schedule_steps > 0 ? schedule_steps : steps; }
};

/// A forward pass: what is trained on, without auxiliary losses, and what is told of it.
struct PassLoss {
  at::Tensor trained;
  double mean = 0;
};
/// The examples [0, count) of a step, at most `micro` at once: auxiliary losses are added, gradients add up. Gives the mean loss.
double in_micro_batches(std::int64_t count, std::int64_t micro, std::int64_t step, const Random& noise,
                        const TrainingOptions& options,
                        const std::function<PassLoss(std::int64_t first, std::int64_t last, ForwardContext& forward)>& pass);

struct TrainingEnd {
  Ending ending = Ending::done;
  std::string error = {};
  nlohmann::json schedule = {};                     ///< where it stands
  std::string training_state = {};                  ///< content of training.safetensors, where the job keeps it
  double step_seconds = 0;                          ///< mean of the steps taken, validation and checkpoints left out
  nlohmann::json usage = nlohmann::json::object();  ///< how often each expert was chosen, by "layer1.feed_forward."
};

inline constexpr const char* usage_file = "usage.json";  ///< TrainingEnd::usage in an artifact

/// Goes on where context.resumed stands. Rows "loss" and "learning_rate" of every step go to the series. A checkpoint is written
/// every job.checkpoint_seconds and when a signal asks for an end; an error is one of the environment (a full disk), with the
/// last checkpoint intact.
Result<TrainingEnd> train(StageContext& context, const TrainingPlan& plan);

/// How many steps a budget means. `windows`: of an epoch; `tokens_per_example`: 0 where tokens cannot be counted beforehand.
/// Gives examples, the last step's included only as far as the budget goes.
Result<std::int64_t> examples_of(const Budget& budget, std::int64_t batch, std::int64_t epoch_examples,
                                 double tokens_per_example);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_TRAINING_LOOP_H_
