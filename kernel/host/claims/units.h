// Units of statistics: seeds, or seeds whose runs share a model of their own; and the models that condition a verdict.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_UNITS_H_
#define MOIETY_KERNEL_HOST_CLAIMS_UNITS_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernel/host/plan/plan.h"

namespace moiety::host {

/// One value a unit: those of seeds whose runs share a model, in any of the arms, are averaged. `values`: (seed, value).
std::vector<double> by_unit(const Plan& plan, const std::vector<std::pair<int, double>>& values,
                            const std::set<std::string>& arms);

/// "over 5 runs of 1 pretrained": a model that all runs share conditions the verdict.
std::string conditions(const Plan& plan, const std::set<std::string>& arms, std::size_t runs);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_UNITS_H_
