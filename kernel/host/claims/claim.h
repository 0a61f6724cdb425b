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

/// How the sides of a statement are compared. `inside`: in low..high.
enum class Relation { less, greater, not_above, not_below, about, equal, inside };

/// One comparison; a chain a > b > c is two.
struct ClaimStatement {
  std::string text;  ///< as written, for people
  Relation relation = Relation::greater;
  std::shared_ptr<const Expression> left, right;  ///< right is absent for `inside`
  std::optional<Margin> by, within, low, high;
  std::string unit;  ///< of the difference
};

struct Claim {
  std::string id, source, published;
  std::string that;  ///< all statements, joined by "; "
  std::map<std::string, std::string> at;
  std::optional<Margin> margin;
  std::vector<ClaimStatement> statements;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_CLAIM_H_
