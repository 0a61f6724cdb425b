// One worker process and the stage it works on.
#ifndef MOIETY_KERNEL_HOST_RUN_WORKER_H_
#define MOIETY_KERNEL_HOST_RUN_WORKER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "kernel/host/run/process.h"
#include "kernel/host/run/protocol.h"
#include "kernel/host/run/stage_end.h"

namespace moiety::host {

/// `[limits]` of the recipe: what makes the host kill a worker.
struct Limits {
  double call_seconds = 600;
  std::int64_t memory = std::int64_t{4} << 30;
};

/// The worker's own memory in bytes (resident), or 0 when it is gone.
std::int64_t resident_memory(pid_t pid);

class Worker {
 public:
  Worker(Child child, Descriptor lock, std::string log, int threads);

  pid_t pid() const { return child_.pid(); }
  int descriptor() const { return open_ ? child_.stdout_descriptor() : -1; }
  int threads() const { return threads_; }
  double started() const { return started_; }
  const std::string& log() const { return log_; }
  const std::optional<Progress>& progress() const { return progress_; }

  /// Takes what the worker has written. True when there was a progress message.
  bool read();
  /// Asks it to stop (SIGINT, SIGTERM) or ends it (SIGKILL).
  void stop(int signal);
  /// Kills it when a call lasts too long or it takes too much memory.
  void enforce(const Limits& limits);
  /// True once the process is gone.
  bool ended() { return child_.poll().has_value(); }
  /// What there is to judge, after `ended`. `artifact` is for the caller to fill.
  WorkerFacts facts();
  /// The last lines of its stderr.
  std::string stderr_tail() const;

 private:
  void take(const Message& message);

  Child child_;
  Descriptor lock_;
  std::string log_, killed_;
  int threads_;
  double started_, beat_at_ = 0, ended_at_ = 0;
  bool open_ = true, stopped_ = false;
  LineBuffer lines_;
  std::optional<Progress> progress_;
  std::optional<Beat> beat_;
  std::optional<Crash> crash_;
  std::optional<End> end_;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RUN_WORKER_H_
