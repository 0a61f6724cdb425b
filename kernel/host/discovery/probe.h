// Asking moiety-worker, in a child with a time limit, what it can do and what is in plugin files.
#ifndef MOIETY_KERNEL_HOST_DISCOVERY_PROBE_H_
#define MOIETY_KERNEL_HOST_DISCOVERY_PROBE_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernel/base/result.h"

namespace moiety::host {

/// `moiety-worker --describe`. Errors (`environment`): it cannot start (a library is missing), crashes, hangs, prints no JSON.
Result<nlohmann::json> describe_worker(const std::string& worker, double limit_seconds);

/// One answer a file, in order: what the worker printed of it, or {"path", "error"} with the reason: the worker's, a signal, the
/// time limit. All files share one process first (loading LibTorch costs half a second); when that dies, hangs or prints
/// nonsense, each gets its own with `limit_seconds`, so one bad file costs no other. A SIGINT or SIGTERM ends the asking: the
/// rest is reported as not probed.
std::vector<nlohmann::json> probe_files(const std::string& worker, const std::vector<std::string>& files, double limit_seconds);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_DISCOVERY_PROBE_H_
