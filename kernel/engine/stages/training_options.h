// How a training verb trains: what of the model, with which optimizer, at which rate.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_TRAINING_OPTIONS_H_
#define MOIETY_KERNEL_ENGINE_STAGES_TRAINING_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
  AdamOptions adam() const { return {beta1, beta2, epsilon, weight_decay.value_or(adam_defaults.weight_decay), clip}; }
  SgdOptions sgd() const { return {momentum, weight_decay.value_or(sgd_defaults.weight_decay), clip}; }
  /// Where its schedule stands.
  ScheduleState state_at(std::int64_t step, std::int64_t steps = 0, double tokens_per_step = 0) const {
    return {step, steps, tokens_per_step, is_adam() ? beta2 : 0, is_adam() ? epsilon : 0};
  }
  double peak_rate() const { return optimizer_rate.value_or(learning_rate); }
  Schedule schedule() const { return {warmup, decay, floor}; }
};

/// Their declarations, for an Options whose first base is TrainingOptions: entries of its `parameters[]`.
#define MOIETY_TRAINING_PARAMETERS(Options)                                                                                    \
  param<&Options::optimizer>("optimizer.use", Optimizer::adamw, "AdamW, or stochastic gradient descent with momentum"),        \
      optional<&Options::optimizer_rate>("optimizer.learning_rate", "peak rate, in place of the stage's").above(0),            \
      param<&Options::beta1>("optimizer.beta1", adam_defaults.beta1, "decay of AdamW's first moment").at_least(0).below(1),    \
      param<&Options::beta2>("optimizer.beta2", adam_defaults.beta2, "decay of AdamW's second moment").at_least(0).below(1),   \
      param<&Options::epsilon>("optimizer.epsilon", adam_defaults.epsilon, "of AdamW: added to the root of the second moment") \
          .above(0),                                                                                                           \
      param<&Options::momentum>("optimizer.momentum", sgd_defaults.momentum, "of sgd").at_least(0).below(1),                   \
      optional<&Options::weight_decay>("optimizer.weight_decay",                                                               \
                                       "decoupled weight decay of matrices; left out: 0.1 with adamw, 0 with sgd")             \
          .at_least(0),                                                                                                        \
      param<&Options::clip>("optimizer.clip", adam_defaults.clip, "largest global norm of the gradient; 0: no clipping")       \
          .at_least(0),                                                                                                        \
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

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_TRAINING_OPTIONS_H_
