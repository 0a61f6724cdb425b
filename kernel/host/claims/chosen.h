// What each arm chose on validation data ([choose]), and the plan as claims see it after that.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_CHOSEN_H_
#define MOIETY_KERNEL_HOST_CLAIMS_CHOSEN_H_

#include <optional>
#include <string>
#include <vector>

#include "kernel/host/claims/judge.h"
#include "kernel/host/plan/plan.h"
#include "registry/registry.h"

namespace moiety::host {

struct Choices {
  /// One for each choice of an arm and the labels of axes at which it was made.
  std::vector<registry::ChoiceRow> made;
  std::vector<registry::TrialRow> trials;
  /// The plan without the trials that were not chosen, and without the labels of choices.
  Plan reported;
};

/// For the labels of axes at which a stage is reported: the trial that is best by the mean over the seeds, and over axes along
/// which only what it goes by varies. A trial that diverged in some seed is not chosen; of equal ones the first as written is.
Choices choose(const Plan& plan, const Measured& measured);

/// Before a run: the plan as far as counts go, where they are the same whatever is chosen; nothing where they are not.
std::optional<Plan> reported_before(const Plan& plan, const CountsOf& counts);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_CHOSEN_H_
