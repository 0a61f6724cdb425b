// The program `moiety`. Loads neither LibTorch nor a plugin: those live in moiety-worker's processes.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <system_error>

#include "kernel/host/command/command.h"

namespace {

/// Every command prints to `stdout`, and the C library keeps no reason of a write that failed: while this lives, it is kept.
class WatchedOutput {
 public:
  WatchedOutput() {
    std::FILE* watched = ::fopencookie(this, "w", {nullptr, &WatchedOutput::write, nullptr, nullptr});
    if (watched == nullptr) return;
    if (::isatty(STDOUT_FILENO) == 1) std::setvbuf(watched, nullptr, _IOLBF, BUFSIZ);
    stdout = watched;
  }
  WatchedOutput(const WatchedOutput&) = delete;
  WatchedOutput& operator=(const WatchedOutput&) = delete;
  ~WatchedOutput() {
    if (stdout == before_) return;
    std::fclose(stdout);
    stdout = before_;
  }

  /// The exit code when all that a command printed has arrived: `code`. Otherwise that is said, and no command that lost its
  /// output ends with 0. A reader that has seen enough (`| head`) is no problem.
  int after(int code) {
    const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    if (written || error_ == EPIPE) return code;
    const int problem = moiety::host::complain({moiety::ErrorKind::environment,
                                                "cannot write the output: " + std::generic_category().message(error_),
                                                error_ == ENOSPC ? "free some space, or send the output somewhere else" : ""});
    return code != 0 ? code : problem;
  }

 private:
  static ssize_t write(void* self, const char* bytes, std::size_t size) {
    int& error = static_cast<WatchedOutput*>(self)->error_;
    std::size_t written = 0;
    while (error == 0 && written < size) {
      const ssize_t part = ::write(STDOUT_FILENO, bytes + written, size - written);
      if (part >= 0)
        written += static_cast<std::size_t>(part);
      else if (errno != EINTR)
        error = errno;
    }
    return static_cast<ssize_t>(written);
  }

  std::FILE* before_ = stdout;
  int error_ = 0;  ///< errno of the first write that failed
};

}  // namespace

int main(int count, char** words) {
  try {
    WatchedOutput output;
    return output.after(moiety::host::dispatch({words + 1, words + count}));
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "moiety: unexpected: %s\n", problem.what());
    return 1;
  }
}
