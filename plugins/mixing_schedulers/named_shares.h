// Shares that a recipe gives by domain name, turned into one number a domain; used by several schedulers.
#ifndef MOIETY_PLUGINS_MIXING_SCHEDULERS_NAMED_SHARES_H_
#define MOIETY_PLUGINS_MIXING_SCHEDULERS_NAMED_SHARES_H_

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "moiety/mixing_scheduler.h"

namespace moiety::mixing {

/// 2.5 as "2.5" and 3.0 as "3".
inline std::string readable(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

/// Number of edits between two names: insert, delete, replace.
inline std::size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

inline std::string near_name(const std::string& name, const std::vector<std::string>& names) {
  const auto nearest =
      std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) { return edits(name, a) < edits(name, b); });
  if (nearest == names.end() || edits(name, *nearest) > 1 + name.size() / 3) return {};
  return "; did you mean `" + *nearest + "`?";
}

/// The number of a domain, or names.size() with a problem told. `windows` may be empty: not known yet.
inline std::size_t find_domain(const std::string& name, const std::vector<std::string>& names,
                               const std::vector<std::int64_t>& windows, const char* parameter, Problems& problems) {
  const auto i = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  if (i == names.size())
    problems.add(parameter, "there is no domain `" + name + "`" + near_name(name, names));
  else if (i < windows.size() && windows[i] < 1)
    problems.add(parameter, "domain `" + name + "` has no training window");
  else
    return i;
  return names.size();
}

/// A share of at least 0 for each domain, 1 together. Nothing given: as many as its windows (equal ones where they are not
/// known).
inline std::vector<double> named_shares(const Shares& given, const std::vector<std::string>& names,
                                        const std::vector<std::int64_t>& windows, Problems& problems) {
  std::vector<double> shares(names.size(), given.empty() && windows.empty() ? 1.0 : 0.0);
  if (given.empty()) {
    std::copy(windows.begin(), windows.end(), shares.begin());
  } else {
    for (const auto& [name, share] : given) {
      if (!std::isfinite(share) || share < 0) {
        problems.add("weights", "the share of `" + name + "` must be a number of at least 0");
        continue;
      }
      const std::size_t i = find_domain(name, names, share > 0 ? windows : std::vector<std::int64_t>{}, "weights", problems);
      if (i < names.size()) shares[i] = share;
    }
  }
  double sum = 0;
  for (const double share : shares) sum += share;
  if (!(sum > 0) && problems.list().empty())
    problems.add("weights", given.empty() ? "no domain has a training window" : "are all zero");
  for (double& share : shares) share = sum > 0 ? share / sum : 0;
  return shares;
}

/// What was told to `problems` as an exception, where there is nobody left to tell.
inline void refuse(const Problems& problems) {
  if (problems.list().empty()) return;
  const Problems::Problem& first = problems.list().front();
  throw std::invalid_argument(first.parameter.empty() ? first.message : first.parameter + ": " + first.message);
}

}  // namespace moiety::mixing

#endif  // MOIETY_PLUGINS_MIXING_SCHEDULERS_NAMED_SHARES_H_
