// An expert constructor makes the experts of a site from a dense model: it decides, declares, then moves numbers.
#ifndef MOIETY_EXPERT_CONSTRUCTOR_H_
#define MOIETY_EXPERT_CONSTRUCTOR_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "moiety/activations.h"
#include "moiety/archive.h"
#include "moiety/clusterer.h"
#include "moiety/component.h"
#include "moiety/plugin.h"
#include "moiety/random.h"
#include "moiety/roles.h"
#include "moiety/weights.h"

namespace moiety {

/// The dense tensors of the site in each model read, by role (roles.h), the first model first. None: the model starts fresh.
using Sources = std::vector<TensorMap>;

/// Roles that are not stored but made of what is, each time they are needed: name → shape.
struct Layout {
  std::map<std::string, std::vector<std::int64_t>> derived;
  double derive_multiply_adds = 0;  ///< to make the roles of one expert
};

class ExpertConstructor : public Component {
 public:
  static constexpr const char* kind = "expert_constructor";
  /// The number of experts; 0: as many as the router finds, which `site.experts` says from then on.
  virtual std::int64_t count(const Facts&) const = 0;
  /// Decides (runs its clusterer); what it decided is its state. The activations are null unless needs() asks for them.
  virtual void plan(const Sources&, const Site&, const Activations*, Random) = 0;
  /// Declares the bank's tensors by role (see router.h), and those that derived roles are made of; `site.experts` is set.
  virtual Layout bind(const Site&, Parameters&) = 0;
  /// Values of the declared tensors, by name; one that is not given keeps its declared start. Pure: moves numbers and nothing
  /// else.
  virtual TensorMap expand(const Sources&, const Site&) const = 0;
  /// The way back: of the bank's values the dense layer, by role, that computes what all its experts together compute, each with
  /// weight 1. Empty: there is none of the site's shape, as for copies.
  virtual TensorMap collapse(const TensorMap& bank, const Site&) const {
    static_cast<void>(bank);
    return {};
  }
  /// Whether Adam's moments may go through expand() like the numbers they belong to.
  virtual bool keeps_moments() const { return false; }
  /// A derived role for these experts, in their order, inside the graph: [experts.size(), …].
  virtual at::Tensor weight(std::string_view, const std::vector<std::int64_t>&) const { return {}; }
};

}  // namespace moiety

#endif  // MOIETY_EXPERT_CONSTRUCTOR_H_
