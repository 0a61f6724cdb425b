// The metrics of a statement against the recipe: arm, stage, metric and pins of each are filled in, and give the unit.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_TERMS_H_
#define MOIETY_KERNEL_HOST_CLAIMS_TERMS_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernel/host/claims/claim.h"
#include "kernel/host/claims/measures.h"
#include "kernel/host/claims/statement_text.h"
#include "kernel/host/recipe/recipe.h"

namespace moiety::host {

/// A unit as text, or that of a plain number, which goes with any.
struct Unit {
  bool plain = true;
  std::string name;
  bool exact = false;  ///< made of counts alone
};

bool is_share(const std::string& unit);

class Terms {
 public:
  /// `arms_known`: see read_claims. `claim`: what it pins, quantifies and averages. All must outlive it.
  Terms(const Recipe& recipe, const Measures& measures, bool arms_known, const Claim& claim)
      : recipe_(recipe), measures_(measures), arms_known_(arms_known), claim_(claim) {}

  /// Begins another statement; `along` may be empty.
  void begin(const std::string& along);
  /// Ends it: a pin must concern one of its metrics, though others need not vary along that axis.
  void end();
  /// Nothing after an error was told.
  std::optional<Unit> unit_of(Expression& node, const StatementText& text);
  /// The axes of `at`, `mean` and quantifiers along which some metric of some statement varies.
  const std::set<std::string>& used_axes() const { return used_axes_; }
  /// Whether some metric of this statement varies along it; then the labels, as far as the recipe knows them.
  bool goes_over(const std::string& axis) const { return labels_.count(axis) != 0; }
  Loop loop(const std::string& axis) const;

 private:
  /// A pin of a metric that does not vary along its axis.
  struct SparePin {
    const StatementText* text = nullptr;
    std::size_t begin = 0, end = 0;
    std::string axis, message, reference;
  };
  /// The labels of an axis that a statement goes over; `open`: some only the data know.
  struct Labels {
    std::vector<std::string> known;
    bool open = false;
  };

  std::optional<Unit> term_unit(MetricTerm& term, const StatementText& text);
  std::optional<Unit> measure_unit(Expression& node, const StatementText& text);
  std::optional<Unit> function_unit(Expression& node, const StatementText& text);
  std::optional<Unit> arithmetic_unit(Expression& node, const StatementText& text);
  void rank_among_arms(Expression& node, const MetricTerm& unbound, const StatementText& text);
  bool is_loop(const std::string& axis) const;
  Binding named(MetricTerm& term, const std::string& label, bool other);
  void multiply(const MetricTerm& term, const RecipeArm& arm, const RecipeStage& stage, const StatementText& text);
  std::optional<Binding> binding(MetricTerm& term, const std::string& axis, const std::vector<std::string>& labels);
  void note(const std::string& axis, const std::vector<std::string>& labels);
  const RecipeArm* arm_of(MetricTerm& term, const StatementText& text) const;
  const RecipeStage* stage_of(MetricTerm& term, const RecipeArm& arm, const StatementText& text) const;
  const RecipeStage* measuring_stage(MetricTerm& term, const RecipeArm& arm, const StatementText& text) const;
  void pin(MetricTerm& term, const RecipeArm& arm, const RecipeStage& stage, const OutputDeclaration& metric,
           const StatementText& text);

  const Recipe& recipe_;
  const Measures& measures_;
  bool arms_known_;
  const Claim& claim_;
  std::set<std::string> used_axes_;
  std::string along_;
  std::map<std::string, Labels> labels_;
  std::set<std::string> varied_;  ///< axes along which some metric of the statement varies
  std::vector<SparePin> spare_pins_;
  std::vector<std::string> over_;           ///< axes of the functions around
  std::vector<MetricTerm*> measures_open_;  ///< uses of measures around, outer first
  std::vector<std::set<std::string>> measure_pins_used_;
  int better_ = 0;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_TERMS_H_
