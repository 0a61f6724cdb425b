// What fine-tuning on a task and on text share.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_FINETUNE_H_
#define MOIETY_KERNEL_ENGINE_STAGES_FINETUNE_H_

#include <numeric>
#include <string>
#include <vector>

#include "kernel/engine/stages/distillation.h"
#include "kernel/engine/stages/options.h"
#include "kernel/engine/stages/training_loop.h"

namespace moiety::engine {

struct FinetuneOptions : TrainingOptions {
  std::string task;
  DataSelection data;
  Budget budget;
  std::int64_t batch = 0, micro_batch = 0, item_tokens = 0, every_steps = 0, items = 0, windows = 0;
  double distill_weight = 0, temperature = 1;

  Distillation distillation() const { return {distill_weight, temperature}; }
  std::int64_t micro() const { return micro_batch > 0 ? std::min(micro_batch, batch) : batch; }
};

/// Which item stands at a place of the endless list of shuffled epochs; it depends on the seed alone.
class ItemOrder {
 public:
  ItemOrder(std::int64_t items, Random random) : random_(random), order_(static_cast<std::size_t>(items)) {}
  std::int64_t at(std::int64_t place) {
    const auto items = static_cast<std::int64_t>(order_.size());
    if (place / items != epoch_) {
      epoch_ = place / items;
      std::iota(order_.begin(), order_.end(), 0);
      random_.fork(static_cast<std::uint64_t>(epoch_)).shuffle(order_);
    }
    return order_[static_cast<std::size_t>(place % items)];
  }
  /// Those of a step, of which there are `all` examples in the whole run.
  std::vector<std::int64_t> of_step(std::int64_t step, std::int64_t batch, std::int64_t all) {
    std::vector<std::int64_t> chosen;
    for (std::int64_t place = step * batch; place < std::min(all, (step + 1) * batch); ++place) chosen.push_back(at(place));
    return chosen;
  }

 private:
  Random random_;
  std::int64_t epoch_ = -1;
  std::vector<std::int64_t> order_;
};

/// Next-token prediction on selected text, instead of a task.
Result<StageOutcome> finetune_text(StageContext& context, const FinetuneOptions& options);
CheckResult check_finetune_text(const CheckContext& context, const FinetuneOptions& options);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_FINETUNE_H_
