#include "kernel/data/command/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace moiety::data {

Result<FileLock> FileLock::take(const std::string& path, const std::function<void()>& waiting) {
  const auto failed = [&](int error) {
    return fail(ErrorKind::environment, "cannot lock " + path + ": " + std::generic_category().message(error),
                "choose a folder that you may write with --store");
  };
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return failed(errno);
  FileLock lock(descriptor);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return failed(errno);
  waiting();
  while (::flock(descriptor, LOCK_EX) != 0) {
    if (errno != EINTR) return failed(errno);
  }
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace moiety::data
