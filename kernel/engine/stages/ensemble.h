// One model to measure, or several as one.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_ENSEMBLE_H_
#define MOIETY_KERNEL_ENGINE_STAGES_ENSEMBLE_H_

#include <memory>
#include <string>
#include <vector>

#include "kernel/engine/stages/classification.h"
#include "kernel/engine/stages/read_models.h"

namespace moiety::engine {

/// How several models become one.
MOIETY_CHOICE(Combination, mean);

class Ensemble {
 public:
  /// At least one; all must read the same tokens in sequences of the same length, and tell the same classes apart.
  static Result<Ensemble> open(const std::vector<const JobInput*>& inputs, const ComponentSet& components);

  std::int64_t context() const { return models_.front()->architecture().context; }
  std::int64_t classes() const { return models_.front()->architecture().classes; }
  std::int64_t longest_item() const { return models_.front()->architecture().longest_item(); }

  /// −ln of the mean probability of each token.
  Result<TokenLosses> token_losses(const LabelledText& text, const ComponentSet& components) const;
  /// By the mean of the probabilities.
  std::vector<ItemResult> classify(const Items& items, const std::vector<std::int64_t>& chosen,
                                   const std::function<bool(std::int64_t done)>& between) const;
  /// Forward passes of all; parameters of all at once.
  void add_cost(const Work& work, Cost& cost) const;

 private:
  std::vector<std::shared_ptr<const Gpt>> models_;
  std::vector<std::string> artifacts_;
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_ENSEMBLE_H_
