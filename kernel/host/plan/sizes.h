// Sizes "total parameters of ARM", "active parameters of ARM": which number of [model] comes nearest.
#ifndef MOIETY_KERNEL_HOST_PLAN_SIZES_H_
#define MOIETY_KERNEL_HOST_PLAN_SIZES_H_

#include <string>
#include <vector>

#include "kernel/host/plan/budgets.h"

namespace moiety::host {

/// Finds what can be found: in each run, the parameters of the models that one measuring stage of the arm reads become those
/// that the stage of the same name reads in the other arm in the run of the same seed (there, at several labels that this arm
/// does not vary along, their mean). It is the first such stage as written. Adds to `facts.sizes` and `facts.unsolvable_sizes`.
/// A size that follows an arm whose number of experts is not known yet is left for later.
Status solve_sizes(const Recipe& recipe, const Catalog& catalog, const PreparedData& prepared, const AskCosts& ask,
                   PlanFacts& facts);

/// "feed_forward_width = 618 in stage.dense (arm wide): 1.23M total parameters, cse-ffn has 1.24M (-0.4 %)", once for equal runs.
std::vector<std::string> sizes_text(const Recipe& recipe, const PlanFacts& facts);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_PLAN_SIZES_H_
