// What all six kinds have in common.
#ifndef MOIETY_COMPONENT_H_
#define MOIETY_COMPONENT_H_

#include "moiety/params.h"
#include "moiety/site.h"

namespace moiety {

class Archive;
class Report;

/// What a component must be given beside its input. It may depend on its options; the plan refuses what cannot be given. What was
/// not asked for arrives undefined, so a forgotten need fails at the first call.
struct Needs {
  bool activations = false;       ///< recorded inputs of its site, when the site is new
  bool domain_labels = false;     ///< the domain of each sequence
  bool cluster_labels = false;    ///< the cluster of each sequence, by the clustering that its input names
  bool token_losses = false;      ///< feedback() after each step
  bool reference_losses = false;  ///< the losses of the model that its input names on the same windows
};

/// A component holds its options and its state, no trained tensor (those it declares, see weights.h). It draws randomness only
/// from the streams it is handed, throws only standard or c10 exceptions, registers no operators and leaves no threads. A
/// component is used by one thread at a time.
class Component {
 public:
  Component() = default;
  Component(const Component&) = delete;
  Component& operator=(const Component&) = delete;
  virtual ~Component() = default;

  virtual Needs needs() const { return {}; }
  /// Adds every reason why this combination makes no sense. Asked before the run.
  virtual void check(const Facts&, Problems&) const {}
  /// Reads or writes all it remembers: `a("centres", centres_);`. One function for both directions.
  virtual void state(Archive&) {}
  /// Numbers about what it remembers, and its results: asked when a stage ends.
  virtual void report(Report&) const {}
};

}  // namespace moiety

#endif  // MOIETY_COMPONENT_H_
