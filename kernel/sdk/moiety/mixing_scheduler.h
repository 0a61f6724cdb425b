// A mixing scheduler proposes what share of the windows each domain gets, as a function of progress. The engine's ledger turns
// shares into whole windows, so that interleaving follows the weights exactly.
#ifndef MOIETY_MIXING_SCHEDULER_H_
#define MOIETY_MIXING_SCHEDULER_H_

#include <string>
#include <vector>

#include "moiety/archive.h"
#include "moiety/component.h"
#include "moiety/plugin.h"
#include "moiety/random.h"

namespace moiety {

struct Domains {
  std::vector<std::string> names;
  std::vector<std::int64_t> windows;  ///< training windows of each
  std::int64_t run_windows = 0;       ///< windows of the whole stage
};

struct Progress {
  std::int64_t step = 0, steps = 0;
};

class MixingScheduler : public Component {
 public:
  static constexpr const char* kind = "mixing_scheduler";
  virtual void start(const Domains&) = 0;
  /// Shares of the domains: not negative, not all zero; the engine normalises.
  virtual std::vector<double> mixture(const Progress&) const = 0;
};

}  // namespace moiety

#endif  // MOIETY_MIXING_SCHEDULER_H_
