// One process at a time.
#ifndef MOIETY_KERNEL_DATA_COMMAND_LOCK_H_
#define MOIETY_KERNEL_DATA_COMMAND_LOCK_H_

#include <functional>
#include <string>

#include "kernel/base/result.h"

namespace moiety::data {

/// An exclusive lock on a file, released with the object and by the system when the process ends in any way.
class FileLock {
 public:
  /// Calls `waiting` once when another process holds the lock, then waits for it.
  static Result<FileLock> take(const std::string& path, const std::function<void()>& waiting);
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_COMMAND_LOCK_H_
