// Items of a task as batches, and what a model makes of them.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_CLASSIFICATION_H_
#define MOIETY_KERNEL_ENGINE_STAGES_CLASSIFICATION_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "kernel/engine/data/task.h"
#include "kernel/engine/model/gpt.h"

namespace moiety::engine {

struct ItemBatch {
  Batch batch;
  at::Tensor labels;  ///< [B] int64
};
/// Items of more than `longest` tokens keep their beginning.
ItemBatch pack_items(const Items& items, std::int64_t longest, const std::vector<std::int64_t>& chosen);

/// Mean cross-entropy of the labels, differentiable: 0-d.
at::Tensor class_loss(const at::Tensor& logits, const at::Tensor& labels);

struct ItemResult {
  std::int64_t item = 0, label = 0, prediction = 0;
  double loss = 0;
};
/// Logarithms of the probabilities of the classes: [B, classes].
using ClassLogits = std::function<at::Tensor(const ItemBatch& packed)>;
/// What they say about these items, in their order. `longest`: tokens of an item that are read. `between` is asked between
/// batches whether to go on.
std::vector<ItemResult> classify(const ClassLogits& logs, std::int64_t longest, const Items& items,
                                 const std::vector<std::int64_t>& chosen,
                                 const std::function<bool(std::int64_t done)>& between = {});
/// The same for one model.
std::vector<ItemResult> classify(const Gpt& model, const Items& items, const std::vector<std::int64_t>& chosen,
                                 const std::function<bool(std::int64_t done)>& between = {});

struct ClassScore {
  double accuracy = 0, loss = 0;
};
ClassScore score(const std::vector<ItemResult>& results);

/// `count` items for validation, spread over the split, the same for every seed; 0: all.
std::vector<std::int64_t> fixed_items(const Items& items, std::int64_t count);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_CLASSIFICATION_H_
