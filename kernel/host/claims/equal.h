// `equal` of claims: what its arms must share, decided from counts before anything runs.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_EQUAL_H_
#define MOIETY_KERNEL_HOST_CLAIMS_EQUAL_H_

#include <set>
#include <string>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/host/claims/claim.h"
#include "kernel/host/claims/costs.h"

namespace moiety::host {

struct EqualCheck {
  /// One line a claim and count: "claim.BAM-2: `equal` asks for equal flops within 1%, and they differ by 11%: …".
  std::vector<std::string> problems;
  std::set<std::string> unknown;  ///< ids of claims for which some count is not known yet
};

/// Compares, in each seed and at each label, the counts behind the metrics of a statement: of different arms, or of one stage of
/// one arm at different labels.
EqualCheck check_equal(const std::vector<Claim>& claims, const Plan& plan, const CountsOf& counts);

/// Whether a claim compares counts or asks for equal ones: then those of every stage of the plan must be known.
bool needs_counts(const std::vector<Claim>& claims);

/// For commands, before anything runs: an error (usage) that tells every claim whose `equal` does not hold; else the ids of
/// claims that can only be checked when more has run (Measured::equal_unknown).
Result<std::set<std::string>> require_equal(const std::vector<Claim>& claims, const Plan& plan, const CountsOf& counts);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_EQUAL_H_
