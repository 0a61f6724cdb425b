// A mixing scheduler at work: shares become windows of domains, factors weigh losses, and what it asks for comes back to it.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_MIXING_RUN_H_
#define MOIETY_KERNEL_ENGINE_STAGES_MIXING_RUN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernel/engine/stages/asked_model.h"
#include "kernel/engine/stages/ledger.h"
#include "kernel/engine/stages/training_loop.h"
#include "kernel/engine/stages/window_pool.h"
#include "moiety/mixing_scheduler.h"

namespace moiety::engine {

class MixingRun {
 public:
  struct Given {
    const WindowPool* pool;
    std::vector<std::string> names;  ///< of its domains
    std::int64_t steps = 0, batch = 0;
    Random random{0};
    const Gpt* reference = nullptr;  ///< whose losses it may ask for
    const WindowLabels* reference_labels = nullptr;
  };
  /// Starts the scheduler. Everything given must outlive it.
  MixingRun(const Instance& mixing, Given given);

  /// Lets it look at the model where that is due before `step`.
  void inspect(std::int64_t step, const Model& model, const Data& data);
  /// Domains of the windows of the next step, in the order in which they are due.
  std::vector<std::int64_t> due(std::int64_t step);
  /// What the loss of each of these windows is multiplied by: a mean of 1 over them, empty where all are 1.
  std::vector<double> factors(const std::vector<std::int64_t>& windows) const;

  bool wants_losses() const { return needs_.token_losses; }
  /// Token losses [B, L] of the next micro-batch of the step.
  void observe(const at::Tensor& losses, const std::vector<std::int64_t>& windows, const WindowBatch& packed);
  /// Hands over what was observed since the last call.
  void feedback(std::int64_t step);
  void state(Archive& ledger, Archive& mixing);
  double reference_tokens() const { return reference_tokens_; }  ///< that the reference model has read since the start

 private:
  const Mixture& mixture(std::int64_t step);

  const Instance& mixing_;
  Given given_;
  Needs needs_;
  Ledger ledger_;
  Mixture mixture_;
  std::int64_t mixture_step_ = -1;
  std::vector<at::Tensor> losses_, references_, domains_;
  double reference_tokens_ = 0;
};

/// The loss of a micro-batch, to be differentiated, where windows are weighed: Σ factor · mean token loss / windows. `mean`:
/// without factors. `hidden` and `targets` have the rows of all its windows, equally long.
PassLoss weighted_loss(const Gpt& model, const at::Tensor& hidden, const at::Tensor& targets, const at::Tensor& expert_of_row,
                       const std::vector<double>& factors);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_MIXING_RUN_H_
