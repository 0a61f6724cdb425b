// A prepared classification task: items of tokens with a label, by split.
#ifndef MOIETY_KERNEL_ENGINE_DATA_TASK_H_
#define MOIETY_KERNEL_ENGINE_DATA_TASK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/engine/data/split.h"
#include "kernel/engine/data/token_file.h"

namespace moiety::engine {

/// What task.json says.
struct TaskFacts {
  std::string path, hash;
  std::int64_t vocabulary = 0;
  std::vector<std::string> classes;
  std::int64_t train_items = 0, train_tokens = 0;

  std::int64_t class_count() const { return static_cast<std::int64_t>(classes.size()); }
  static Result<TaskFacts> read(const std::string& path);
};

class Items {
 public:
  std::int64_t count() const { return labels_.size(); }
  std::int64_t length(std::int64_t item) const { return static_cast<std::int64_t>(offsets_[item + 1] - offsets_[item]); }
  const std::uint16_t* tokens(std::int64_t item) const { return tokens_.data() + offsets_[item]; }
  std::int64_t label(std::int64_t item) const { return labels_[item]; }

 private:
  friend class TrainingTask;
  friend class EvaluationTask;
  static Result<Items> open(const TaskFacts& facts, const char* split);
  MappedNumbers<std::uint16_t> tokens_;
  MappedNumbers<std::uint64_t> offsets_;
  MappedNumbers<std::int32_t> labels_;
};

/// What a training stage gets. It has no way to open a test split.
class TrainingTask {
 public:
  static Result<TrainingTask> open(const std::string& path);
  const TaskFacts& facts() const { return facts_; }
  const Items& items(TrainingSplit split) const { return split == TrainingSplit::train ? train_ : valid_; }

 private:
  TaskFacts facts_;
  Items train_, valid_;
};

/// What a measuring stage gets.
class EvaluationTask {
 public:
  static Result<EvaluationTask> open(const std::string& path, Split split);
  const TaskFacts& facts() const { return facts_; }
  const Items& items() const { return items_; }

 private:
  TaskFacts facts_;
  Items items_;
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_DATA_TASK_H_
