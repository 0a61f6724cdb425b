// Which stages wait, run and have ended, and what follows from it: a stage is ready when all it reads is done; a stage that fails
// takes its readers with it and nothing else.
#ifndef MOIETY_KERNEL_HOST_RUN_BOARD_H_
#define MOIETY_KERNEL_HOST_RUN_BOARD_H_

#include <map>
#include <string>
#include <vector>

#include "kernel/host/plan/plan.h"

namespace moiety::host {

enum class StageState { waiting, running, done, failed, diverged, interrupted, skipped };
const char* name(StageState state);

class Board {
 public:
  /// The plan must outlive the board.
  explicit Board(const Plan& plan);

  StageState state(const std::string& id) const { return states_.at(id); }
  void set_running(const std::string& id) { states_.at(id) = StageState::running; }
  /// Ends a stage. For failed and diverged: the waiting stages that read it, at any distance, become `skipped` and are returned.
  std::vector<const PlannedStage*> end(const std::string& id, StageState state);

  /// Waiting stages whose inputs are all done, in the order of the plan.
  std::vector<const PlannedStage*> ready() const;
  std::size_t count(StageState state) const;
  std::size_t size() const { return states_.size(); }
  /// Nothing runs and nothing can start any more.
  bool finished() const { return count(StageState::running) == 0 && ready().empty(); }

 private:
  const Plan& plan_;
  std::map<std::string, StageState> states_;
};

/// "arm clustered, seed 3", "arms dense and again, seed 2", "all arms, pinned".
std::string whose(const Plan& plan, const PlannedStage& stage);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RUN_BOARD_H_
