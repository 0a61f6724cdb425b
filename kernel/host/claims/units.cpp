#include "kernel/host/claims/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "kernel/base/text.h"

namespace moiety::host {

std::vector<double> by_unit(const Plan& plan, const std::vector<std::pair<int, double>>& values,
                            const std::set<std::string>& arms) {
  std::vector<std::size_t> leader(values.size());
  std::iota(leader.begin(), leader.end(), 0);
  const auto find = [&](std::size_t i) {
    while (leader[i] != i) i = leader[i];
    return i;
  };
  for (const auto& arm : arms) {
    std::map<std::string, std::size_t> first;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const PlannedRun* run = plan.run(arm, values[i].first);
      if (run == nullptr || run->group.empty()) continue;
      const auto [known, is_new] = first.emplace(run->group, i);
      if (is_new) continue;
      const std::size_t a = find(known->second), b = find(i);
      leader[std::max(a, b)] = std::min(a, b);
    }
  }
  std::map<std::size_t, std::pair<double, int>> units;
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto& [sum, count] = units[find(i)];
    sum += values[i].second;
    ++count;
  }
  std::vector<double> means;
  for (const auto& [unit, total] : units) means.push_back(total.first / total.second);
  return means;
}

std::string conditions(const Plan& plan, const std::set<std::string>& arms, std::size_t runs) {
  if (plan.seeds < 2 || runs < 2) return {};
  std::vector<std::string> names;
  for (const auto& arm : arms) {
    const PlannedRun* first = plan.run(arm, 1);
    if (first == nullptr) continue;
    for (const auto& [name, id, labels] : first->stages) {
      const PlannedStage* stage = plan.stage(id);
      if (stage == nullptr || !stage->pinned || stage->verb->leaves != "model") continue;
      bool shared = true;
      for (int seed = 2; seed <= plan.seeds; ++seed) {
        const PlannedRun* run = plan.run(arm, seed);
        shared = shared && run != nullptr &&
                 std::any_of(run->stages.begin(), run->stages.end(), [&, &id = id](const auto& one) { return one.id == id; });
      }
      if (shared && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names.empty() ? "" : fmt::format("over {} runs of 1 {}", runs, join(names, " and 1 "));
}

}  // namespace moiety::host
