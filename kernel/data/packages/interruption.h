// Ctrl-C at any moment, in the middle of a library call too: children end, unfinished folders go, exit code 130.
#ifndef MOIETY_KERNEL_DATA_PACKAGES_INTERRUPTION_H_
#define MOIETY_KERNEL_DATA_PACKAGES_INTERRUPTION_H_

#include <sys/types.h>

#include <string>

#include "kernel/base/result.h"

namespace moiety::data {

/// Starts the thread that waits for SIGINT and SIGTERM. Call once, before any other thread starts. Whatever a program publishes
/// it publishes by one rename, so ending the process between two instructions leaves nothing half-written.
void watch_for_interruption();

/// A folder in which something is being made. Leftovers of a killed process are removed first; what is in it at the end goes
/// with the object, or with the process when a signal ends it.
class GuardedFolder {
 public:
  static Result<GuardedFolder> make(const std::string& path);
  ~GuardedFolder();
  GuardedFolder(GuardedFolder&& other) noexcept;
  GuardedFolder& operator=(GuardedFolder&&) = delete;
  const std::string& path() const { return path_; }

 private:
  explicit GuardedFolder(std::string path);
  std::string path_;
};

/// A running program that a signal to this one also ends.
class GuardedChild {
 public:
  explicit GuardedChild(pid_t child);
  ~GuardedChild();
  GuardedChild(const GuardedChild&) = delete;
  GuardedChild& operator=(const GuardedChild&) = delete;

 private:
  pid_t child_;
};

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_PACKAGES_INTERRUPTION_H_
