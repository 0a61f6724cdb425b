// The program `moiety`. Loads neither LibTorch nor a plugin: those live in moiety-worker's processes.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <system_error>

#include "kernel/host/command/command.h"

namespace {

int output_error = 0;  ///< errno of the first write to standard output that failed

ssize_t write_output(void*, const char* bytes, std::size_t size) {
  std::size_t written = 0;
  while (output_error == 0 && written < size) {
    const ssize_t part = ::write(STDOUT_FILENO, bytes + written, size - written);
    if (part >= 0)
      written += static_cast<std::size_t>(part);
    else if (errno != EINTR)
      output_error = errno;
  }
  return static_cast<ssize_t>(written);
}

/// Every command prints to `stdout`, and the C library keeps no reason of a write that failed: from here on it is kept.
void watch_output() {
  std::FILE* watched = ::fopencookie(nullptr, "w", {nullptr, write_output, nullptr, nullptr});
  if (watched == nullptr) return;
  if (::isatty(STDOUT_FILENO) == 1) std::setvbuf(watched, nullptr, _IOLBF, BUFSIZ);
  stdout = watched;
}

/// The exit code when all that a command printed has arrived: `code`. Otherwise that is said, and no command that lost its output
/// ends with 0. A reader that has seen enough (`| head`) is no problem.
int after_output(int code) {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || output_error == EPIPE) return code;
  const int problem = moiety::host::complain(
      {moiety::ErrorKind::environment, "cannot write the output: " + std::generic_category().message(output_error),
       output_error == ENOSPC ? "free some space, or send the output somewhere else" : ""});
  return code != 0 ? code : problem;
}

}  // namespace

int main(int count, char** words) {
  try {
    watch_output();
    return after_output(moiety::host::dispatch({words + 1, words + count}));
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "moiety: unexpected: %s\n", problem.what());
    return 1;
  }
}
