// [choose]: what each arm selects on validation data. All labels are run; an arm reports the one that is best in the mean over
// its seeds, so that every arm gets the same trials and none is a variation of what is claimed.
#ifndef MOIETY_KERNEL_HOST_RECIPE_CHOICES_H_
#define MOIETY_KERNEL_HOST_RECIPE_CHOICES_H_

#include "kernel/host/recipe/axes.h"
#include "kernel/host/recipe/diagnostics.h"
#include "kernel/host/recipe/recipe.h"

namespace moiety::host {

/// Whether every arm that varies along a choice has what it goes by: a metric of validation data, measured for each label.
void check_choices(const Recipe& recipe, Diagnostics& diagnostics);

/// The recipe as reports and claims see it: stages that vary along choices stand once, without these labels.
Recipe as_reported(const Recipe& recipe);

/// Labels of [axes], and those of [choose].
struct SplitLabels {
  AxisLabels axes, choices;
};
SplitLabels split_labels(const AxisLabels& labels, const Axes& axes);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_CHOICES_H_
