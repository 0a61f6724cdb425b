// How a worker's process ended, as a state of its stage. The state comes from here, never from the worker alone: only exit code 0
// together with the end mark and an artifact is `done`.
#ifndef MOIETY_KERNEL_HOST_RUN_STAGE_END_H_
#define MOIETY_KERNEL_HOST_RUN_STAGE_END_H_

#include <optional>
#include <string>

#include "kernel/host/run/board.h"
#include "kernel/host/run/process.h"
#include "kernel/host/run/protocol.h"

namespace moiety::host {

struct WorkerFacts {
  Exit exit;
  std::optional<End> end;      ///< the end mark
  std::optional<Crash> crash;  ///< what its signal handler wrote
  std::optional<Beat> beat;    ///< the last one
  std::string killed;          ///< why the host killed it ("" when it did not)
  bool stopped = false;        ///< the host asked it to stop (Ctrl-C, …)
  bool artifact = false;       ///< a whole artifact is in the store
  double wall_seconds = 0;
  std::string last_words;  ///< last line of its stderr
};

struct StageEnd {
  StageState state = StageState::failed;
  bool environment = false;  ///< nothing wrong with the stage: disk full, store unwritable, no program; it can be resumed
  std::string error;         ///< one line
  std::string component, function;
  int exit_code = 0, signal = 0;
  std::int64_t tokens = 0, peak_memory = 0;
  double flops = 0, wall_seconds = 0, cpu_seconds = 0;
};

StageEnd judge(const WorkerFacts& facts);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RUN_STAGE_END_H_
