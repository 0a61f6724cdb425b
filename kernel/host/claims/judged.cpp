#include "kernel/host/claims/judged.h"

#include <algorithm>

#include "kernel/host/claims/verdicts.h"

namespace moiety::host {

registry::Verdict verdict_of(const std::vector<Judged>& parts, double confidence) {
  const auto all = [&](registry::Verdict wanted, double level) {
    return std::count_if(parts.begin(), parts.end(), [&](const Judged& one) { return one.verdict(level) == wanted; });
  };
  const auto size = static_cast<std::ptrdiff_t>(parts.size());
  if (size > 0 && all(registry::Verdict::supported, confidence) == size) return registry::Verdict::supported;
  const double stricter = 1 - (1 - confidence) / static_cast<double>(parts.size());
  return all(registry::Verdict::refuted, stricter) > 0 ? registry::Verdict::refuted : registry::Verdict::undecided;
}

void withdraw(JudgedClaim& claim, const std::string& why) {
  for (auto& row : claim.rows) {
    if (row.verdict != explored) row.verdict = registry::name(registry::Verdict::undecided);
    row.reason = why + (row.reason.empty() ? "" : "; " + row.reason);
  }
  claim.decide = [](double) { return registry::Verdict::undecided; };
}

void adjust(std::vector<JudgedClaim>& claims, double confidence) {
  std::vector<JudgedClaim*> family;
  for (auto& claim : claims) {
    if (claim.rows.empty() || claim.rows.back().verdict == explored) continue;
    claim.rows.back().adjusted = claim.rows.back().verdict;
    if (claim.statistical) family.push_back(&claim);
  }
  const auto holds = [&](std::size_t i, double level) {
    return family[i]->decide(level) != registry::Verdict::undecided && family[i]->decide(level) == family[i]->decide(confidence);
  };
  const std::size_t sure = count_after_holm(family.size(), confidence, holds);
  // Those that hold at the level of the last step taken are just these.
  const double level = 1 - (1 - confidence) / static_cast<double>(family.size() - (sure == 0 ? 0 : sure - 1));
  for (std::size_t i = 0; i < family.size(); ++i) {
    if (sure == 0 || !holds(i, level)) family[i]->rows.back().adjusted = registry::name(registry::Verdict::undecided);
  }
}

}  // namespace moiety::host
