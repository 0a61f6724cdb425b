// One stage from job to artifact.
#ifndef MOIETY_KERNEL_ENGINE_WORKER_RUN_H_
#define MOIETY_KERNEL_ENGINE_WORKER_RUN_H_

#include <atomic>
#include <string>
#include <vector>

#include "kernel/engine/worker/job.h"
#include "kernel/engine/worker/protocol.h"

namespace moiety::engine {

/// Exit codes of `--run` beside 0, 1 and 3.
inline constexpr int exit_diverged = 4;

/// Works on the stage, resuming where its folder has a checkpoint, and publishes the artifact. Sends the `end` line and gives the
/// exit code: 0 done, 1 failed, 3 environment, 4 diverged, 128 + signal interrupted. `stop` becomes a signal number when the
/// stage shall stop.
int run_job(const Job& job, Protocol& protocol, const std::atomic<int>& stop);

/// The dry pass: one JSON line a job on standard output. Jobs stand in topological order.
int check_jobs(const std::vector<std::string>& paths, std::string& output);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_WORKER_RUN_H_
