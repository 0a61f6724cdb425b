// What pretrain and finetune share: steps of AdamW with schedule and clipping, checkpoints, resuming, progress, divergence,
// signals.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_TRAINING_LOOP_H_
#define MOIETY_KERNEL_ENGINE_STAGES_TRAINING_LOOP_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernel/engine/checkpoint/state_archive.h"
#include "kernel/engine/numerics/adamw.h"
#include "kernel/engine/numerics/schedule.h"
#include "kernel/engine/stages/continuation.h"
#include "kernel/engine/stages/stage.h"

namespace moiety::engine {

MOIETY_CHOICE(Optimizer, adamw, sgd);

/// The keys `train`, `learning_rate`, `optimizer.*`, `schedule.*` and `dropout` of a training verb.
struct TrainingOptions {
  double learning_rate = 0, dropout = 0, unit_dropout = 0;
  Optimizer optimizer = Optimizer::adamw;
  std::optional<double> optimizer_rate, weight_decay;
  double beta1 = 0, beta2 = 0, epsilon = 0, momentum = 0, clip = 0;
  double warmup = 0, floor = 0;
  Decay decay = Decay::cosine;
  bool train_all = false, train_head = false;
  std::vector<std::string> train_only, lora_matrices;
  std::int64_t lora_rank = 0;
  double lora_alpha = 0;

  bool is_adam() const { return optimizer == Optimizer::adamw; }
  AdamOptions adam() const {
    return {is_adam() ? beta1 : momentum, beta2, epsilon, weight_decay.value_or(is_adam() ? 0.1 : 0.0), clip};
  }
  double peak_rate() const { return optimizer_rate.value_or(learning_rate); }
  Schedule schedule() const { return {warmup, decay, floor}; }
};

/// Their declarations, for an Options whose first base is TrainingOptions: entries of its `parameters[]`.
#define MOIETY_TRAINING_PARAMETERS(Options)                                                                                    \
  param<&Options::optimizer>("optimizer.use", Optimizer::adamw, "AdamW, or stochastic gradient descent with momentum"),        \
      optional<&Options::optimizer_rate>("optimizer.learning_rate", "peak rate, in place of the stage's").above(0),            \
      param<&Options::beta1>("optimizer.beta1", 0.9, "decay of AdamW's first moment").at_least(0).below(1),                    \
      param<&Options::beta2>("optimizer.beta2", 0.95, "decay of AdamW's second moment").at_least(0).below(1),                  \
      param<&Options::epsilon>("optimizer.epsilon", 1e-8, "of AdamW: added to the root of the second moment").above(0),        \
      param<&Options::momentum>("optimizer.momentum", 0.0, "of sgd").at_least(0).below(1),                                     \
      optional<&Options::weight_decay>("optimizer.weight_decay",                                                               \
                                       "decoupled weight decay of matrices; left out: 0.1 with adamw, 0 with sgd")             \
          .at_least(0),                                                                                                        \
      param<&Options::clip>("optimizer.clip", 1.0, "largest global norm of the gradient; 0: no clipping").at_least(0),         \
      param<&Options::warmup>("schedule.warmup", 0.02, "share of the steps in which the rate rises").range(0, 1),              \
      param<&Options::decay>("schedule.decay", Decay::cosine, "how the rate goes on after that"),                              \
      param<&Options::floor>("schedule.floor", 0.1, "share of the rate that is left at the end of the cosine").range(0, 1),    \
      param<&Options::dropout>("dropout", 0.0, "share of numbers set to 0 after the embedding and after each part of a block") \
          .at_least(0)                                                                                                         \
          .below(1),                                                                                                           \
      param<&Options::unit_dropout>("unit_dropout", 0.0, "share of the neurons of dense feed-forwards set to 0 for a token")   \
          .at_least(0)                                                                                                         \
          .below(1),                                                                                                           \
      param<&Options::train_all>("train.all", false, "everything, as without `train`"),                                        \
      param<&Options::train_head>("train.head", false, "the read-out alone: of classes, or of tokens where it is untied"),     \
      optional<&Options::train_only>("train.only", "tensors by name, `*` for anything: layer*.feed_forward.*"),                \
      required<&Options::lora_rank>("train.lora.rank", "of the adapters").range(1, 100000),                                    \
      param<&Options::lora_alpha>("train.lora.alpha", 16.0, "the adapters' product is multiplied by alpha / rank").above(0),   \
      optional<&Options::lora_matrices>("train.lora.matrices",                                                                 \
                                        "by name, `*` for anything; left out: those of the attentions; a head trains too")

/// Tables among them that may be left out.
inline std::vector<OptionalTable> with_training_tables(std::vector<OptionalTable> tables) {
  tables.push_back({"train", "what trains: \"head\", { only = […] } or { lora = { rank = 8 } }; left out: everything"});
  tables.push_back({"train.lora", "low-rank adapters (Hu et al., LoRA, ICLR 2022), added to their matrices at the end"});
  return tables;
}

/// What cannot go together, before the run; `model` then knows whether more than its read-out will train.
void check_training(const TrainingOptions& options, PlannedModel& model, ConfigProblems& problems);

/// Lets train what `train` says; after a resume adapters are those of the checkpoint.
Status choose_trained(const StageContext& context, const TrainingOptions& options, Gpt& model);

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
