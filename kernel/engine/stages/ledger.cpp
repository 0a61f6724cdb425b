#include "kernel/engine/stages/ledger.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace moiety::engine {
namespace {

/// Shares of those that may be given something, not normalised: negative and non-finite ones are 0; where nothing is left,
/// `otherwise` decides. `open(d)`: whether domain d may be given something.
template <class Open>
std::vector<double> clean_shares(const std::vector<double>& shares, const std::vector<std::int64_t>& otherwise,
                                 const Open& open) {
  double largest = 0;
  for (std::size_t d = 0; d < shares.size(); ++d)
    if (open(d) && std::isfinite(shares[d])) largest = std::max(largest, shares[d]);
  std::vector<double> clean(shares.size());
  for (std::size_t d = 0; d < shares.size(); ++d) {
    if (!open(d)) continue;
    // Divided by the largest first: a sum of huge shares must not overflow.
    clean[d] =
        largest > 0 ? (std::isfinite(shares[d]) ? std::max(0.0, shares[d] / largest) : 0.0) : static_cast<double>(otherwise[d]);
  }
  return clean;
}

double sum_of(const std::vector<double>& numbers) { return std::accumulate(numbers.begin(), numbers.end(), 0.0); }

}  // namespace

Ledger::Ledger(std::vector<std::int64_t> domain_windows, std::vector<std::int64_t> budgets)
    : windows_(std::move(domain_windows)), given_(windows_.size()), left_(std::move(budgets)), carry_(windows_.size()) {
  if (std::none_of(windows_.begin(), windows_.end(), [](std::int64_t n) { return n > 0; }))
    throw std::invalid_argument("no domain has a window to train on");
  if (!left_.empty() && left_.size() != windows_.size()) throw std::invalid_argument("one budget for each domain");
  for (std::size_t d = 0; d < left_.size(); ++d)
    if (left_[d] < 0 || (left_[d] > 0 && windows_[d] == 0))
      throw std::invalid_argument("a domain without windows has no budget, and no budget is negative");
}

std::vector<std::int64_t> Ledger::give(const std::vector<double>& shares, std::int64_t count) {
  if (shares.size() != windows_.size()) throw std::invalid_argument("one share for each domain");
  const bool limited = !left_.empty();
  const auto open = [&](std::size_t d) { return windows_[d] > 0 && (!limited || left_[d] > 0); };
  std::vector<double> share;
  double total = 0;
  const auto look_again = [&] {
    share = clean_shares(shares, limited ? left_ : windows_, open);
    total = sum_of(share);
  };
  look_again();
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::size_t due = windows_.size();
    for (std::size_t d = 0; d < share.size(); ++d) {
      if (share[d] > 0) carry_[d] += share[d] / total;
      if (share[d] > 0 && (due == windows_.size() || carry_[d] > carry_[due])) due = d;
    }
    if (due == windows_.size()) throw std::out_of_range("the budgets of all domains are used up");
    carry_[due] -= 1;
    ++given_[due];
    order.push_back(static_cast<std::int64_t>(due));
    if (limited && --left_[due] == 0) look_again();
  }
  return order;
}

void Ledger::state(Archive& archive) {
  archive("given", given_);
  archive("carry", carry_);
  if (!left_.empty()) archive("left", left_);
}

std::vector<std::int64_t> whole_windows(const std::vector<double>& shares, const std::vector<std::int64_t>& domain_windows,
                                        std::int64_t count) {
  const std::vector<double> clean = clean_shares(shares, domain_windows, [&](std::size_t d) { return domain_windows[d] > 0; });
  const double total = sum_of(clean);
  std::vector<std::int64_t> whole(shares.size());
  std::vector<std::pair<double, std::size_t>> rests;  // negative: the largest first
  std::int64_t left = count;
  for (std::size_t d = 0; d < shares.size(); ++d) {
    if (clean[d] == 0) continue;
    const double exact = static_cast<double>(count) * clean[d] / total;
    whole[d] = std::min(left, static_cast<std::int64_t>(std::floor(exact)));
    left -= whole[d];
    rests.emplace_back(static_cast<double>(whole[d]) - exact, d);
  }
  if (rests.empty()) throw std::invalid_argument("no domain has a window to train on");
  std::sort(rests.begin(), rests.end());
  for (std::size_t i = 0; left > 0; i = (i + 1) % rests.size(), --left) ++whole[rests[i].second];
  return whole;
}

}  // namespace moiety::engine
