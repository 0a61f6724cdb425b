// Turns proposed shares into whole windows: largest carry first, so that interleaving follows the shares exactly.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_LEDGER_H_
#define MOIETY_KERNEL_ENGINE_STAGES_LEDGER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "moiety/archive.h"

namespace moiety::engine {

class Ledger {
 public:
  /// A domain without windows gets none. With `budgets` no domain ever gets more than its own: a domain whose budget is used up
  /// is out, whatever its share, so that after as many windows as the budgets hold each domain has had exactly its budget.
  explicit Ledger(std::vector<std::int64_t> domain_windows, std::vector<std::int64_t> budgets = {});

  /// `count` windows for these shares, one domain each, in the order in which they are due. Shares are normalised; negative and
  /// non-finite ones count as 0; when nothing is left the windows of the domains decide. After any number of calls a domain has
  /// been given what its shares add up to, to less than the number of domains (one, while shares stay the same). Throws
  /// std::out_of_range for more windows than the budgets hold.
  std::vector<std::int64_t> give(const std::vector<double>& shares, std::int64_t count);

  const std::vector<std::int64_t>& given() const { return given_; }
  void state(Archive& archive);

 private:
  std::vector<std::int64_t> windows_, given_, left_;  // left: of the budgets; empty without
  std::vector<double> carry_;
};

/// `count` windows for these shares, as whole numbers that add up to it: what is left after rounding down goes to the largest
/// rests. Shares are cleaned as above.
std::vector<std::int64_t> whole_windows(const std::vector<double>& shares, const std::vector<std::int64_t>& domain_windows,
                                        std::int64_t count);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_LEDGER_H_
