// Budgets "flops of ARM", "tokens of ARM": how many steps make the totals of two arms equal; "1e15 flops": how many cost as much.
#ifndef MOIETY_KERNEL_HOST_PLAN_BUDGETS_H_
#define MOIETY_KERNEL_HOST_PLAN_BUDGETS_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/host/plan/plan.h"

namespace moiety::host {

struct BudgetCost {
  double flops = 0, tokens = 0, total_parameters = 0, active_parameters = 0;
  bool estimate = false;  ///< known when more has run
};
/// Costs of these stages of a plan, by identity.
using AskCosts =
    std::function<Result<std::map<std::string, BudgetCost>>(const Plan& plan, const std::vector<const PlannedStage*>& stages)>;

/// Solves what can be solved: the totals are those of every training, construction and clustering stage that the measured models
/// of an arm need, at the same labels. Adds to `facts.steps` and `facts.unsolvable`. A budget whose arms still wait for results
/// is left for later.
Status solve_budgets(const Recipe& recipe, const Catalog& catalog, const PreparedData& prepared, const AskCosts& ask,
                     PlanFacts& facts);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_PLAN_BUDGETS_H_
