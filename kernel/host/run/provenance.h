// Where a run comes from: the git commit of the folder it was started in, and what was changed in it since.
#ifndef MOIETY_KERNEL_HOST_RUN_PROVENANCE_H_
#define MOIETY_KERNEL_HOST_RUN_PROVENANCE_H_

#include <string>

namespace moiety::host {

struct Provenance {
  std::string commit;  ///< empty: no git, or no repository here
  std::string diff;    ///< `git diff HEAD` and the names of untracked files; ignored files are not in it; at most 1 MiB
  bool dirty = false;
};

/// Best effort, at most a few seconds. MOIETY_NO_DIFF=1: the diff is left out (dirty is still told).
Provenance provenance_of(const std::string& folder);

/// Build id of the running program, in hexadecimal; empty when it has none.
std::string own_build_id();

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RUN_PROVENANCE_H_
