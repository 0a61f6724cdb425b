// `moiety run`: a recipe from its text to its verdicts.
#ifndef MOIETY_KERNEL_HOST_RUN_RUN_H_
#define MOIETY_KERNEL_HOST_RUN_RUN_H_

#include <string>
#include <vector>

#include "kernel/host/run/session.h"

namespace moiety::host {

struct RunRequest {
  RecipeRequest recipe;
  std::string registry;
  int jobs = 0, max_failures = 0;
  std::vector<std::string> require;  ///< claims without which the exit code is 1
  std::string again;                 ///< the command line as typed, for "to go on: …"
};

/// Prints progress and notes to stderr, the report to stdout. Returns the exit code (README, "Exit codes").
int run_recipe(const RunRequest& request);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RUN_RUN_H_
