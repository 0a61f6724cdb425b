// A mixing scheduler proposes what share of the windows each domain gets, as a function of progress. The engine's ledger turns
// shares into whole windows, so that interleaving follows the weights exactly.
#ifndef MOIETY_MIXING_SCHEDULER_H_
#define MOIETY_MIXING_SCHEDULER_H_

#include <string>
#include <vector>

#include "moiety/archive.h"
#include "moiety/component.h"
#include "moiety/model.h"
#include "moiety/plugin.h"
#include "moiety/random.h"

namespace moiety {

struct Domains {
  std::vector<std::string> names;
  std::vector<std::int64_t> windows;  ///< training windows of each
  std::int64_t run_windows = 0;       ///< windows of the whole stage
  std::int64_t window_tokens = 0;     ///< of each of them
};

/// Shares to draw by: not negative, not all zero; the engine normalises. Factors on the losses of a domain's windows, which the
/// engine divides by their mean over the batch; empty: 1.
struct Mixture {
  std::vector<double> shares, loss_factors;
};

/// What a step said: the losses of its micro-batches, in their order.
struct Feedback {
  std::int64_t step = 0;
  at::Tensor losses;     ///< [B, L] of each token, no gradient
  at::Tensor reference;  ///< [B, L] of the reference model, if needs() asks for it
  at::Tensor domain;     ///< [B] int64
};

struct Progress {
  std::int64_t step = 0, steps = 0;
};

class MixingScheduler : public Component {
 public:
  static constexpr const char* kind = "mixing_scheduler";
  virtual void start(const Domains&) = 0;
  virtual Mixture mixture(const Progress&) const = 0;
  /// After each step, if needs() asks for token losses.
  virtual void feedback(const Feedback&) {}
  /// Steps between two calls of inspect(), the first one before step 0; 0: never.
  virtual std::int64_t inspect_every() const { return 0; }
  /// May ask the model for gradients and Hessian-vector products on training windows; nothing trains meanwhile.
  virtual void inspect(const Model&, const Data&, const Progress&, Random) {}
  /// Whether every domain gets, over the whole run, the windows that its shares at the start say: the ledger then gives no domain
  /// more than is left of its budget, so that only the order moves.
  virtual bool conserves_budgets() const { return false; }
};

}  // namespace moiety

#endif  // MOIETY_MIXING_SCHEDULER_H_
