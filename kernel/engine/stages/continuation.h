// What one training stage leaves for another that goes on where it stopped: moments of the optimizer by tensor, what sampler,
// mixing and ledger remember, and where the schedule stands. It lies beside the model as training.safetensors.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_CONTINUATION_H_
#define MOIETY_KERNEL_ENGINE_STAGES_CONTINUATION_H_

#include <optional>
#include <string>
#include <vector>

#include "kernel/engine/model/model_file.h"
#include "kernel/engine/stages/stage.h"

namespace moiety::engine {

inline constexpr const char* training_file = "training.safetensors";

/// Adam's moments of all that trains, flat as the parameters lie.
struct Moments {
  at::Tensor first, second;
  explicit Moments(const Gpt& model);
};

/// Where a schedule stands: `step` steps are done of `steps`.
struct ScheduleState {
  std::int64_t step = 0, steps = 0;
  double tokens_per_step = 0;     ///< 0: not known beforehand
  double beta2 = 0, epsilon = 0;  ///< of AdamW, which its second moment is read with; epsilon 0: another optimizer

  bool of_adam() const { return epsilon > 0; }
  nlohmann::json to_json() const;
  static std::optional<ScheduleState> from_json(const nlohmann::json& json);
  /// The step that a snapshot's text means ("10%", "400k tokens"), or why it means none.
  Result<std::int64_t> step_of(const std::string& point) const;
};

struct TrainingState {
  TensorMap moments;  ///< "first.NAME", "second.NAME"
  TensorMap state;    ///< as StateWriter wrote it
  ScheduleState schedule;
};

/// Content of the file.
std::string training_bytes(const Gpt& model, const Moments& moments, const NamedTensors& state);
/// Of the model that the stage reads; an error when it was not kept.
Result<TrainingState> read_training_state(const ModelFile& file);
/// Moments by name into the flat ones; a tensor without moments keeps 0.
Status load_moments(const Gpt& model, const TensorMap& by_name, Moments& moments);

/// What AdamW multiplies a gradient by where `schedule` stands: 1 / (√v̂ + ε), flat; undefined before the first step, and where
/// the optimizer has no second moments.
at::Tensor preconditioner_of(const Moments& moments, const ScheduleState& schedule);

/// After `fresh` sites took the place of dense tensors: the file with their moments moved like the numbers they belong to where
/// the constructor keeps them, else 0, into outcome.files; nothing where the model has none.
Status pass_training_state_on(const ModelFile& file, const Gpt& model, const std::vector<const ExpertSite*>& fresh,
                              StageOutcome& outcome);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_CONTINUATION_H_
