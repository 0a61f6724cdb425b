// The text that a training stage reads: windows to train on, and text to watch itself with.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_TRAINING_TEXT_H_
#define MOIETY_KERNEL_ENGINE_STAGES_TRAINING_TEXT_H_

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "kernel/engine/stages/selection.h"
#include "kernel/engine/stages/window_pool.h"

namespace moiety::engine {

/// Facts of the job's corpus for the dry pass, empty while it is not prepared. Nothing after adding to `problems`.
std::optional<CorpusFacts> planned_corpus(const Job& job, ConfigProblems& problems);

/// What a stage's `data` selects of it: domains and their windows; none while the corpus is not prepared.
struct PlannedText {
  std::vector<std::string> names;
  std::vector<std::int64_t> windows;

  std::int64_t all_windows() const { return std::accumulate(windows.begin(), windows.end(), std::int64_t{0}); }
};
std::optional<PlannedText> planned_text(const CorpusFacts& facts, const DataSelection& data, const Job& job, std::int64_t context,
                                        ConfigProblems& problems);

struct TrainingText {
  Selection selection;
  WindowPool pool;
  TokenStreams valid;  ///< the same domains, whole

  /// An error when there is no window to train on, or none to validate with.
  static Result<TrainingText> open(const TrainingCorpus& corpus, const DataSelection& data, const Job& job, std::int64_t context);

  /// By what name a domain's position is known to later stages: the order of its windows depends on which there are.
  std::string position_name(std::size_t domain) const;
  /// Equal for stages whose samplers, schedulers and domains are the same, so that one can go on with what another remembers.
  std::int64_t fingerprint(const Instance& sampler, const Instance& mixing) const;
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_TRAINING_TEXT_H_
