// Verdicts: the numbers of the runs behind each claim, and what they decide.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_JUDGE_H_
#define MOIETY_KERNEL_HOST_CLAIMS_JUDGE_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "kernel/host/claims/claim.h"
#include "kernel/host/claims/costs.h"
#include "kernel/host/plan/plan.h"
#include "registry/registry.h"

namespace moiety::host {

/// What was measured. The functions are asked once a stage and run.
struct Measured {
  std::function<std::string(const std::string& stage_id)> state;  ///< "done", "failed", "diverged", …; "" unknown
  std::function<std::vector<registry::MetricRow>(const std::string& stage_id)> final_rows;  ///< last values of its metrics
  std::function<std::string(const std::string& arm, int seed)> run_id;  ///< for VerdictRow::runs; "" leaves it out
  CountsOf counts = {};                      ///< what stages cost; without it such claims are undecided
  std::set<std::string> equal_unknown = {};  ///< claims whose `equal` could not be checked before the run: it is now
};

/// `plan`: as it is reported (chosen.h). One row a claim (statement ""), and for claims of several statements one row each before
/// it. A missing, failed or diverged run makes its claims undecided and is named. The unit is the seed, or the seeds that share a
/// model of their own (PlannedRun::group). Claims of `explore` have the verdict "explored". `adjusted` of a claim's own row is
/// its verdict after Holm over all claims that intervals decide.
std::vector<registry::VerdictRow> judge(const std::vector<Claim>& claims, const Plan& plan, const Measured& measured);

/// The same for the claims that counts alone decide, without a run; none where they depend on what will be chosen.
std::vector<registry::VerdictRow> judge_counts(const std::vector<Claim>& claims, const Plan& plan, const CountsOf& counts);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_JUDGE_H_
