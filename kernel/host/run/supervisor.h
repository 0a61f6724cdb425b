// Runs the stages of a plan: one worker process a stage, as many at once as there are cores for, each stage once. A stage found
// in the store is not run; a failed one takes its readers with it and nothing else; Ctrl-C leaves everything resumable.
//
// One thread: it polls the workers' pipes.
#ifndef MOIETY_KERNEL_HOST_RUN_SUPERVISOR_H_
#define MOIETY_KERNEL_HOST_RUN_SUPERVISOR_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernel/host/run/board.h"
#include "kernel/host/run/display.h"
#include "kernel/host/run/job.h"
#include "kernel/host/run/rate.h"
#include "kernel/host/run/recorder.h"
#include "kernel/host/run/worker.h"

namespace moiety::host {

struct SupervisorOptions {
  std::string worker;
  int cores = 1;         ///< the threads of all running stages never exceed them (a stage that wants more runs alone)
  int jobs = 0;          ///< most workers at once; 0: as many as the cores allow
  int max_failures = 0;  ///< stop after so many failed stages; 0: never
  Limits limits;
  double stop_seconds = 10;                    ///< between asking a worker to stop and killing it
  std::map<std::string, double> flops;         ///< of each stage, where the dry pass told: for the time left
  std::map<std::string, StageState> before;    ///< stages that ended in this run already, while less of the plan was known
  std::map<std::string, std::string> refused;  ///< stages that fail at once, and why
  std::size_t unknown = 0;                     ///< stages of the whole that the plan does not know yet
};

/// A stage that did not become done, and why.
struct LostStage {
  const PlannedStage* stage = nullptr;
  StageEnd end;
  std::string log;
};

struct RunSummary {
  std::vector<LostStage> failed, diverged, interrupted;  ///< interrupted: by others, this run goes on with the rest
  std::set<std::string> not_done;                        ///< stages by id
  std::map<std::string, StageState> states;              ///< of all stages
  std::size_t ran = 0, reused = 0, done = 0, skipped = 0, total = 0;
  int signal = 0;                     ///< SIGINT or SIGTERM that ended the run early
  std::optional<Error> environment;   ///< disk full, store or registry not writable: ended early, resumable
  bool gave_up = false;               ///< --max-failures was reached
  std::vector<std::string> unformed;  ///< stages for which a result does not fit, and why
  std::vector<std::string> losses;    ///< "pretrained (…): validation loss …" of what was pretrained or taken from the store
  double seconds = 0;
};

/// Cores that this process may use.
int available_cores();

class Supervisor {
 public:
  Supervisor(const JobContext& context, Recorder& recorder, Display& display, SupervisorOptions options);
  RunSummary run();

 private:
  struct Running {
    const PlannedStage* stage;
    std::int64_t attempt;
    std::unique_ptr<Worker> worker;
    Rate rate;
  };
  enum class Start { started, ended, busy, stopped };

  /// What ended before is not done again, and what reads a stage that failed then is skipped.
  void take_over();
  Status refuse(const PlannedStage& stage, std::int64_t attempt, const std::string& why);
  void start_what_can();
  Start start(const PlannedStage& stage);
  bool set_aside(const PlannedStage& stage, const StoredStage& stored);
  Start reuse(const PlannedStage& stage, const nlohmann::json& manifest);
  Status launch(const PlannedStage& stage, Descriptor lock);
  bool fits(const PlannedStage& stage) const;
  void poll_workers();
  void finish(Running& running);
  void lose(const PlannedStage& stage, const StageEnd& end, const std::string& log);
  void tell_done(const PlannedStage& stage, const StageEnd& end);
  void look_at_interrupts(double now);
  void stop_all(int signal);
  void stop_for(const Error& error);
  void show(double now);
  std::optional<double> seconds_left() const;
  bool note_status(const Status& status);
  std::string label(const PlannedStage& stage) const;

  const JobContext& context_;
  Recorder& recorder_;
  Display& display_;
  SupervisorOptions options_;
  Board board_;
  Durations durations_;
  std::vector<Running> running_;
  std::set<std::string> told_busy_;
  RunSummary summary_;
  bool stopping_ = false, changed_ = true, full_ = false;
  int interrupts_seen_ = 0;
  double begin_ = 0, kill_at_ = 0, beaten_at_ = 0, tried_busy_at_ = 0;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RUN_SUPERVISOR_H_
