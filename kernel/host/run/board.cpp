#include "kernel/host/run/board.h"

#include <algorithm>
#include <set>

#include "kernel/base/text.h"

namespace moiety::host {

const char* name(StageState state) {
  switch (state) {
    case StageState::waiting:
      return "waiting";
    case StageState::running:
      return "running";
    case StageState::done:
      return "done";
    case StageState::failed:
      return "failed";
    case StageState::diverged:
      return "diverged";
    case StageState::interrupted:
      return "interrupted";
    case StageState::skipped:
      return "skipped";
  }
  return "";
}

Board::Board(const Plan& plan) : plan_(plan) {
  for (const auto& stage : plan.stages) states_[stage.id] = StageState::waiting;
}

std::vector<const PlannedStage*> Board::end(const std::string& id, StageState state) {
  states_.at(id) = state;
  std::vector<const PlannedStage*> skipped;
  if (state != StageState::failed && state != StageState::diverged) return skipped;
  std::set<std::string> lost = {id};
  // The plan lists each stage before its readers, so one pass finds them all.
  for (const auto& stage : plan_.stages) {
    const bool reads_lost =
        std::any_of(stage.inputs.begin(), stage.inputs.end(), [&](const auto& input) { return lost.count(input.stage_id) != 0; });
    if (!reads_lost) continue;
    lost.insert(stage.id);
    auto& own = states_.at(stage.id);
    if (own != StageState::waiting) continue;
    own = StageState::skipped;
    skipped.push_back(&stage);
  }
  return skipped;
}

std::vector<const PlannedStage*> Board::ready() const {
  std::vector<const PlannedStage*> found;
  for (const auto& stage : plan_.stages) {
    if (states_.at(stage.id) != StageState::waiting) continue;
    const auto done = [this](const StageInput& input) { return states_.at(input.stage_id) == StageState::done; };
    if (std::all_of(stage.inputs.begin(), stage.inputs.end(), done)) found.push_back(&stage);
  }
  return found;
}

std::size_t Board::count(StageState state) const {
  return static_cast<std::size_t>(
      std::count_if(states_.begin(), states_.end(), [state](const auto& entry) { return entry.second == state; }));
}

std::string whose(const Plan& plan, const PlannedStage& stage) {
  std::string text;
  if (stage.arms.size() == plan.arms.size() && plan.arms.size() > 1)
    text = "all arms";
  else if (stage.arms.size() == 1)
    text = "arm " + stage.arms[0];
  else if (stage.arms.size() > 1) {
    const std::vector<std::string> but_last(stage.arms.begin(), stage.arms.end() - 1);
    text = "arms " + join(but_last, ", ") + " and " + stage.arms.back();
  }
  std::set<int> seeds;
  for (const auto& run : plan.runs) {
    for (const auto& one : run.stages) {
      if (one.id == stage.id) seeds.insert(run.seed);
    }
  }
  if (!text.empty()) text += ", ";
  if (seeds.size() == 1) return text + "seed " + std::to_string(*seeds.begin());
  return text + (stage.pinned || seeds.size() > 1 ? "all seeds" : "no seed");
}

}  // namespace moiety::host
