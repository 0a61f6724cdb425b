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
  /// A domain without windows gets none.
  explicit Ledger(std::vector<std::int64_t> domain_windows);

  /// `count` windows for these shares, one domain each, in the order in which they are due. Shares are normalised; negative and
  /// non-finite ones count as 0; when nothing is left the windows of the domains decide. After any number of calls a domain has
  /// been given what its shares add up to, to less than the number of domains (one, while shares stay the same).
  std::vector<std::int64_t> give(const std::vector<double>& shares, std::int64_t count);

  const std::vector<std::int64_t>& given() const { return given_; }
  void state(Archive& archive);

 private:
  std::vector<std::int64_t> windows_, given_;
  std::vector<double> carry_;
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_LEDGER_H_
