// The metrics of a statement against the recipe: arm, stage, metric and pins of each are filled in, and give the unit.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_TERMS_H_
#define MOIETY_KERNEL_HOST_CLAIMS_TERMS_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernel/host/claims/expression.h"
#include "kernel/host/claims/statement_text.h"
#include "kernel/host/recipe/recipe.h"

namespace moiety::host {

/// A unit as text, or that of a plain number, which goes with any.
struct Unit {
  bool plain = true;
  std::string name;
};

bool is_share(const std::string& unit);

class Terms {
 public:
  /// `arms_known`: see read_claims. `at`: what the claim pins for all its metrics.
  Terms(const Recipe& recipe, bool arms_known, const std::map<std::string, std::string>& at)
      : recipe_(recipe), arms_known_(arms_known), at_(at) {}

  /// Nothing after an error was told.
  std::optional<Unit> unit_of(Expression& node, const StatementText& text);
  /// The axes of `at` along which some metric varies.
  const std::set<std::string>& used_pins() const { return used_pins_; }

 private:
  std::optional<Unit> term_unit(MetricTerm& term, const StatementText& text);
  const RecipeArm* arm_of(MetricTerm& term, const StatementText& text) const;
  const RecipeStage* stage_of(MetricTerm& term, const RecipeArm& arm, const StatementText& text) const;
  const RecipeStage* measuring_stage(MetricTerm& term, const RecipeArm& arm, const StatementText& text) const;
  void pin(MetricTerm& term, const RecipeArm& arm, const RecipeStage& stage, const OutputDeclaration& metric,
           const StatementText& text);

  const Recipe& recipe_;
  bool arms_known_;
  const std::map<std::string, std::string>& at_;
  std::set<std::string> used_pins_;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_TERMS_H_
