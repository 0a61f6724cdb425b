// What pretraining is told, and how many steps that means.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_PRETRAIN_H_
#define MOIETY_KERNEL_ENGINE_STAGES_PRETRAIN_H_

#include <memory>

#include "kernel/engine/stages/options.h"
#include "kernel/engine/stages/training_loop.h"
#include "moiety/mixing_scheduler.h"
#include "moiety/sampler.h"

namespace moiety::engine {

struct PretrainOptions : TrainingOptions {
  Budget budget;
  DataSelection data;
  bool continues = false;
  std::int64_t batch = 0, micro_batch = 0, every_steps = 0, windows = 0;
  std::shared_ptr<MixingScheduler> mixing;
  std::shared_ptr<Sampler> sampler;

  std::int64_t micro() const { return micro_batch > 0 ? std::min(micro_batch, batch) : batch; }
  std::int64_t passes() const { return (batch + micro() - 1) / micro(); }  ///< of a step
};

inline constexpr Parameter pretrain_parameters[] = {
    required<&PretrainOptions::budget>(
        "budget",
        "how long: tokens, steps, epochs or examples (windows), whole steps, rounded up; rest: to the end of "
        "the schedule that is continued"),
    optional<&PretrainOptions::data>("data", "which text of the corpus is trained on; all when left out"),
    param<&PretrainOptions::continues>("continues", false,
                                       "optimizer, schedule and order of the windows go on from the stage read"),
    param<&PretrainOptions::batch>("batch", 16, "windows a step").range(1, 1000000).in("windows"),
    param<&PretrainOptions::micro_batch>("micro_batch", 0,
                                         "windows computed at once, the rest is accumulated; 0: the whole batch")
        .range(0, 1000000)
        .in("windows"),
    param<&PretrainOptions::learning_rate>("learning_rate", 2e-3, "peak rate").above(0),
    MOIETY_TRAINING_PARAMETERS(PretrainOptions),
    param<&PretrainOptions::mixing>("mixing", "proportional", "what share of the windows each domain gets"),
    param<&PretrainOptions::sampler>("sampler", "uniform", "which windows of a domain come next"),
    param<&PretrainOptions::every_steps>("validation.every_steps", 100, "steps between two validations; 0: only at the end")
        .at_least(0)
        .in("steps"),
    param<&PretrainOptions::windows>("validation.windows", 128, "validation windows, in proportion to the domains' sizes")
        .at_least(1)
        .in("windows")};

/// Of a stage: steps done before it where it continues a schedule, done when it ends, and of the whole schedule.
struct Steps {
  std::int64_t first = 0, last = 0, schedule = 0;
};
/// `epoch`: windows there are; `before`: what is continued, as {steps done, …, steps of its schedule}.
Result<Steps> steps_of(const PretrainOptions& options, std::int64_t epoch, std::int64_t context, const Steps& before);

CheckResult check_pretrain(const CheckContext& context);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_PRETRAIN_H_
