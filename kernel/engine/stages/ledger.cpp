#include "kernel/engine/stages/ledger.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace moiety::engine {

Ledger::Ledger(std::vector<std::int64_t> domain_windows)
    : windows_(std::move(domain_windows)), given_(windows_.size()), carry_(windows_.size()) {
  if (std::none_of(windows_.begin(), windows_.end(), [](std::int64_t n) { return n > 0; }))
    throw std::invalid_argument("no domain has a window to train on");
}

std::vector<std::int64_t> Ledger::give(const std::vector<double>& shares, std::int64_t count) {
  if (shares.size() != windows_.size()) throw std::invalid_argument("one share for each domain");
  double largest = 0;
  for (std::size_t d = 0; d < shares.size(); ++d)
    if (windows_[d] > 0 && std::isfinite(shares[d])) largest = std::max(largest, shares[d]);
  std::vector<double> share(shares.size());
  double total = 0;
  for (std::size_t d = 0; d < shares.size(); ++d) {
    if (windows_[d] == 0) continue;
    // Divided by the largest first: a sum of huge shares must not overflow.
    share[d] =
        largest > 0 ? (std::isfinite(shares[d]) ? std::max(0.0, shares[d] / largest) : 0.0) : static_cast<double>(windows_[d]);
    total += share[d];
  }
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::size_t due = windows_.size();
    for (std::size_t d = 0; d < share.size(); ++d) {
      carry_[d] += share[d] / total;
      if (windows_[d] > 0 && share[d] > 0 && (due == windows_.size() || carry_[d] > carry_[due])) due = d;
    }
    carry_[due] -= 1;
    ++given_[due];
    order.push_back(static_cast<std::int64_t>(due));
  }
  return order;
}

void Ledger::state(Archive& archive) {
  archive("given", given_);
  archive("carry", carry_);
}

}  // namespace moiety::engine
