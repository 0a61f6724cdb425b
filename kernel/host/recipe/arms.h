// Arms: patches of the recipe, with `extends` and `unset`; and the defaults that stages and claims take.
#ifndef MOIETY_KERNEL_HOST_RECIPE_ARMS_H_
#define MOIETY_KERNEL_HOST_RECIPE_ARMS_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernel/host/catalog.h"
#include "kernel/host/recipe/diagnostics.h"
#include "kernel/host/recipe/value.h"

namespace moiety::host {

/// Lays [defaults.stage], [defaults.VERB] and [defaults.claim] under the stages and claims that take them.
class Defaults {
 public:
  Defaults(const Value& root, const Catalog& catalog, Diagnostics& diagnostics);
  void apply(Value& root) const;
  Value stage(const Value& written) const;
  /// Where [defaults.claim] writes its keys and values.
  const std::set<Place>& claim_places() const { return claim_places_; }

 private:
  Value table_ = Value::table();
  std::set<Place> claim_places_;
  const Catalog& catalog_;
};

struct ArmText {
  std::string name;
  Place place;
  Value patch;                     ///< as written: extends, unset, stage, model
  Value root;                      ///< the recipe with this arm's patches; references not replaced yet
  std::vector<std::string> whole;  ///< stages that the patch writes anew: not there before, or with another verb
};

/// The arms as written; the arm `main` when there is none. As `use` replaces a whole component, `do` with another verb replaces a
/// whole stage.
std::vector<ArmText> read_arms(const Value& root, const Defaults& defaults, Diagnostics& diagnostics);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_ARMS_H_
