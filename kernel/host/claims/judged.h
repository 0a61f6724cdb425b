// What parts of a claim, and claims, make of the verdicts of their parts: lists, quantifiers, Holm.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_JUDGED_H_
#define MOIETY_KERNEL_HOST_CLAIMS_JUDGED_H_

#include <functional>
#include <string>
#include <vector>

#include "kernel/host/claims/claim.h"
#include "registry/registry.h"
#include "registry/statistics.h"

namespace moiety::host {

/// The verdict of `explore`: there is none.
constexpr const char* explored = "explored";

/// A statement at one label of each quantified axis, or what several of them make.
struct Judged {
  registry::VerdictRow row;
  bool complete = false;  ///< no run is missing
  std::function<registry::Verdict(double confidence)> decide;

  registry::Verdict verdict(double confidence) const { return complete ? decide(confidence) : registry::Verdict::undecided; }
};

struct JudgedClaim {
  std::vector<registry::VerdictRow> rows;
  std::function<registry::Verdict(double confidence)> decide;
  bool statistical = false;  ///< some statement is decided by an interval, not by counts
};

/// Supported when all parts are, each at full confidence; refuted when one is after Holm, whose first step is the smallest p at
/// the error divided by the number of parts; else undecided.
registry::Verdict verdict_of(const std::vector<Judged>& parts, double confidence);
/// `most` and `some`: what these cells make after Holm.
Judged counted(const Claim& claim, const ClaimStatement& statement, const std::vector<Judged>& cells, double confidence);
/// The row of a claim of several parts.
registry::VerdictRow whole(const Claim& claim, const std::vector<Judged>& parts, double confidence);
/// What a claim asks of its arms is not so: nothing is decided.
void withdraw(JudgedClaim& claim, const std::string& why);
/// Fills in the verdicts that stand after Holm over all claims that intervals decide.
void adjust(std::vector<JudgedClaim>& claims, double confidence);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_JUDGED_H_
