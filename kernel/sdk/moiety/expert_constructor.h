// An expert constructor makes the experts of a site from a dense model: it decides, declares, then moves numbers.
#ifndef MOIETY_EXPERT_CONSTRUCTOR_H_
#define MOIETY_EXPERT_CONSTRUCTOR_H_

#include <vector>

#include "moiety/activations.h"
#include "moiety/archive.h"
#include "moiety/clusterer.h"
#include "moiety/component.h"
#include "moiety/plugin.h"
#include "moiety/random.h"
#include "moiety/weights.h"

namespace moiety {

/// The dense tensors of the site in each model read: `in` [F, d], `in_bias` [F], `out` [d, F], `out_bias` [d].
using Sources = std::vector<TensorMap>;

class ExpertConstructor : public Component {
 public:
  static constexpr const char* kind = "expert_constructor";
  /// The number of experts; 0: as many as the router finds, which `site.experts` says from then on.
  virtual std::int64_t count(const Facts&) const = 0;
  /// Decides (runs its clusterer); what it decided is its state. The activations are null unless needs() asks for them.
  virtual void plan(const Sources&, const Site&, const Activations*, Random) = 0;
  /// Declares the bank's tensors by role (see router.h); `site.experts` is set.
  virtual void bind(const Site&, Parameters&) = 0;
  /// Values of the declared tensors, by role. Pure: moves numbers and nothing else.
  virtual TensorMap expand(const Sources&, const Site&) const = 0;
};

}  // namespace moiety

#endif  // MOIETY_EXPERT_CONSTRUCTOR_H_
