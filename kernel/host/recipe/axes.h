// [axes]: what varies inside arms. An axis is a list of labelled values; a stage that mentions it stands once for each of them.
// [choose] has axes too, of which each arm reports one label: the best on validation data.
#ifndef MOIETY_KERNEL_HOST_RECIPE_AXES_H_
#define MOIETY_KERNEL_HOST_RECIPE_AXES_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernel/host/recipe/diagnostics.h"
#include "kernel/host/recipe/value.h"

namespace moiety::host {

/// Axis → label: where a stage stands along the axes of its recipe.
using AxisLabels = std::map<std::string, std::string>;

/// Whether both say the same of each axis that both have.
bool agree(const AxisLabels& a, const AxisLabels& b);
/// "split [k=4, size=24x4]"; the name alone without labels.
std::string instance_text(const std::string& name, const AxisLabels& labels);
/// `0.0` and `0` are one label, as 1e-3 and 0.001 are; anything but a number stays as it is.
std::string canonical_label(const std::string& label);
/// The axes that a measurement adds: a recipe's own have other names.
const std::vector<std::string>& recorded_axes();

struct AxisElement {
  std::string label;
  Value value;  ///< what `${axis}` is: a table without its `label`
  Value parts;  ///< what `${axis.part}` is a part of: a table with its `label`
};

/// What a choice goes by: "highest tuned.valid_accuracy", in the mean over the seeds.
struct ChoiceRule {
  std::string text;
  Place place;
  bool highest = true;
  std::string stage, metric;
};

struct Axis {
  std::string name;
  Place place;
  std::vector<AxisElement> elements;  ///< in the order written
  std::optional<ChoiceRule> choice;   ///< of [choose]

  std::vector<std::string> labels() const;
  /// By label, written in any form of its number.
  const AxisElement* element(const std::string& label) const;
};

class Axes {
 public:
  const std::vector<Axis>& all() const { return axes_; }
  const Axis* find(const std::string& name) const;
  std::vector<std::string> names() const;
  /// Those of [axes] alone: what reports go along.
  Axes without_choices() const;
  /// One combination, whether skipped or not: for a stage of which only the form matters.
  AxisLabels first_labels() const;
  /// Whether `skip` leaves this combination out. A rule speaks about what varies along all of its axes, and of nothing else.
  bool skipped(const std::string& arm, const AxisLabels& labels) const;
  /// All combinations of labels of these axes that the arm does not skip.
  std::vector<AxisLabels> combinations(const std::string& arm, const std::set<std::string>& axes) const;

 private:
  friend class AxesReader;
  struct Rule {
    std::set<std::string> arms;  ///< empty: all
    std::map<std::string, std::set<std::string>> labels;
  };
  std::vector<Axis> axes_;  ///< by name
  std::vector<Rule> rules_;
};

/// Reads [axes] of the merged recipe, its definitions replaced. `arm_names` are for `skip`.
Axes read_axes(const Value& root, const std::vector<std::string>& arm_names, Diagnostics& diagnostics);

/// The axes that the texts of a value mention.
void collect_axes(const Value& value, const Axes& axes, std::set<std::string>& found);
/// Replaces `${axis}` and `${axis.part}` for these labels; mentions of other axes stay. The values remember the reference.
void substitute_axes(Value& value, const Axes& axes, const AxisLabels& labels, Diagnostics& diagnostics);
/// The same with the first label of every axis.
void substitute_first_labels(Value& value, const Axes& axes, Diagnostics& diagnostics);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_AXES_H_
