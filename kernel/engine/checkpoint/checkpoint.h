// The state of a stage in the middle of its work, published as a whole: a kill at any moment leaves the last one readable.
#ifndef MOIETY_KERNEL_ENGINE_CHECKPOINT_CHECKPOINT_H_
#define MOIETY_KERNEL_ENGINE_CHECKPOINT_CHECKPOINT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "kernel/base/result.h"
#include "kernel/engine/checkpoint/safetensors.h"

namespace moiety::engine {

struct Checkpoint {
  std::int64_t step = 0;          ///< steps done
  std::int64_t series_bytes = 0;  ///< of series.jsonl that belong to it
  TensorMap model;                ///< by name
  TensorMap moments;              ///< Adam's: "first", "second", flat
  TensorMap state;                ///< what components, sampler and stage remember
};

class CheckpointFolder {
 public:
  /// `work` is the stage's folder, `stage` its identity, which a checkpoint must name.
  CheckpointFolder(std::string work, std::string stage) : work_(std::move(work)), stage_(std::move(stage)) {}

  /// Writes a new one beside the old, then puts it in the old one's place. On failure (disk full) the old one is still there.
  Status save(std::int64_t step, std::int64_t series_bytes, const NamedTensors& model, const NamedTensors& moments,
              const NamedTensors& state) const;

  struct Loaded {
    std::optional<Checkpoint> checkpoint;
    std::string damage;  ///< why one that was there was set aside as checkpoint.damaged; empty: none was
  };
  /// Every file's size and SHA-256 are checked. A damaged one is set aside, never an error.
  Result<Loaded> load() const;

  /// Moves the checkpoint to checkpoint.damaged.
  Status set_aside() const;
  Status remove() const;

 private:
  std::string work_, stage_;
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_CHECKPOINT_CHECKPOINT_H_
