// Claims: statements about metrics of arms, checked before anything runs and judged afterwards.
//
//   that = "accuracy(clustered) > accuracy(dense) by 0.5pp"
//   at   = { set = "test" }
#ifndef MOIETY_KERNEL_HOST_CLAIMS_CLAIM_H_
#define MOIETY_KERNEL_HOST_CLAIMS_CLAIM_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernel/host/claims/expression.h"

namespace moiety::host {

/// How the sides of a statement are compared. `inside`: in low..high; `reported`: not at all (`explore`); from `rises` on: how
/// the left side goes along an axis.
enum class Relation { less, greater, not_above, not_below, about, equal, inside, reported, rises, falls, peaks, dips, stays };
/// How many of the labels of a claim's quantified axes a statement must hold for.
enum class Quantifier { every, most, some };

/// One comparison; a chain a > b > c is two.
struct ClaimStatement {
  std::string text;  ///< as written, for people
  Relation relation = Relation::greater;
  std::shared_ptr<const Expression> left, right;  ///< right is absent for `inside`, `reported` and along an axis
  std::vector<Loop> quantified;                   ///< axes for whose labels it is decided separately
  Loop along;
  std::optional<Margin> by, within, low, high;
  std::string unit;     ///< of the difference
  bool counts = false;  ///< made of counts alone: exact, decided without seeds
};

struct Claim {
  std::string id, source, published;
  std::string that;      ///< all statements, joined by "; "
  bool explore = false;  ///< they are reported without a verdict
  std::map<std::string, std::string> at;
  std::optional<Margin> margin;
  Quantifier quantifier = Quantifier::every;
  std::vector<std::string> quantified, mean;  ///< axes
  std::map<std::string, double> equal;        ///< counts that its arms must share → tolerance, 0.01 for 1 %
  bool all_seeds = false;                     ///< decided by the agreement of all seeds, not by an interval
  std::vector<ClaimStatement> statements;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_CLAIM_H_
