// Runs another program without a shell and reads what it prints.
#ifndef MOIETY_KERNEL_DATA_PACKAGES_PROCESS_H_
#define MOIETY_KERNEL_DATA_PACKAGES_PROCESS_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/base/result.h"

namespace moiety::data {

struct Outcome {
  int exit_code = 0;   ///< 128 + signal when a signal ended it
  std::string errors;  ///< the first 64 KiB of its stderr
};

/// Starts `arguments[0]` (searched in PATH) in `folder` (empty: the current one) with LC_ALL=C and an empty standard input.
/// Its stdout goes to `sink` piece by piece; when the sink fails, the program is ended and the sink's error returned.
/// An environment error when the program cannot be started.
Result<Outcome> run_program(const std::vector<std::string>& arguments, const std::function<Status(std::string_view)>& sink,
                            const std::string& folder = {});

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_PACKAGES_PROCESS_H_
