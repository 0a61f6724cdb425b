#include "kernel/host/claims/judged.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/base/text.h"
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

Judged counted(const Claim& claim, const ClaimStatement& statement, const std::vector<Judged>& cells, double confidence) {
  Judged result;
  result.row.claim_id = claim.id;
  result.row.statement = statement.text;
  result.row.unit = statement.unit;
  for (const auto& one : cells) {
    result.row.n = result.row.n == 0 ? one.row.n : std::min(result.row.n, one.row.n);
    for (const auto& run : one.row.runs) {
      if (std::find(result.row.runs.begin(), result.row.runs.end(), run) == result.row.runs.end()) result.row.runs.push_back(run);
    }
  }
  const auto count = [cells](registry::Verdict wanted, double level_of_all) {
    return count_after_holm(cells.size(), level_of_all,
                            [&](std::size_t i, double level) { return cells[i].verdict(level) == wanted; });
  };
  result.complete = !cells.empty();
  result.decide = [cells, count, most = claim.quantifier == Quantifier::most](double asked) {
    const auto supported = count(registry::Verdict::supported, asked);
    if (most ? 2 * supported > cells.size() : supported > 0) return registry::Verdict::supported;
    if (most && 2 * count(registry::Verdict::refuted, asked) >= cells.size()) return registry::Verdict::refuted;
    const bool none = std::all_of(cells.begin(), cells.end(),
                                  [&](const Judged& one) { return one.verdict(asked) == registry::Verdict::refuted; });
    return !most && none ? registry::Verdict::refuted : registry::Verdict::undecided;
  };
  result.row.verdict = registry::name(result.verdict(confidence));
  result.row.reason =
      fmt::format("after Holm {} of {} labels are supported and {} refuted", count(registry::Verdict::supported, confidence),
                  cells.size(), count(registry::Verdict::refuted, confidence));
  return result;
}

registry::VerdictRow whole(const Claim& claim, const std::vector<Judged>& parts, double confidence) {
  registry::VerdictRow row;
  row.claim_id = claim.id;
  const double stricter = 1 - (1 - confidence) / static_cast<double>(parts.size());
  std::string refuted;
  std::vector<std::string> open;
  row.n = parts.empty() ? 0 : parts[0].row.n;
  for (const auto& one : parts) {
    row.n = std::min(row.n, one.row.n);
    for (const auto& run : one.row.runs) {
      if (std::find(row.runs.begin(), row.runs.end(), run) == row.runs.end()) row.runs.push_back(run);
    }
    if (one.row.verdict != registry::name(registry::Verdict::supported)) open.push_back(one.row.statement);
    if (refuted.empty() && one.verdict(stricter) == registry::Verdict::refuted) refuted = one.row.statement;
  }
  if (claim.explore) {
    row.verdict = explored;
    row.reason = fmt::format("{} values", parts.size());
    return row;
  }
  const auto verdict = verdict_of(parts, confidence);
  row.verdict = registry::name(verdict);
  row.reason = verdict == registry::Verdict::supported ? fmt::format("all {} parts are supported", parts.size())
               : verdict == registry::Verdict::refuted ? "refuted (after Holm): " + refuted
                                                       : "not supported: " + join(open, "; ");
  return row;
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
