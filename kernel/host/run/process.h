// Child processes of the host: workers, moiety-data, git. Every child leads a process group of its own, so that a kill reaches
// what it started too, and is told to end (SIGTERM) when the host dies, however it dies.
//
// Threads: for a program with one thread (a child is told of the death of the thread that started it).
#ifndef MOIETY_KERNEL_HOST_RUN_PROCESS_H_
#define MOIETY_KERNEL_HOST_RUN_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernel/base/result.h"

namespace moiety::host {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }
  void reset();

 private:
  int number_ = -1;
};

struct Command {
  std::vector<std::string> words;                                ///< words[0]: absolute path, or a name to look up in PATH
  std::vector<std::pair<std::string, std::string>> environment;  ///< added to the host's own
  std::string folder;                                            ///< to start in; empty: the host's
  std::string input;        ///< written to its stdin (at most 64 KiB when the child does not read)
  std::string stderr_file;  ///< stderr is appended to this file; empty: the host's stderr
  bool stderr_to_pipe = false;
  int inherited = -1;  ///< a descriptor that stays open in the child (a stage's lock)
};

/// How a child ended, and what it used.
struct Exit {
  int code = 0;  ///< meaningful when signal is 0
  int signal = 0;
  double cpu_seconds = 0;
  std::int64_t peak_memory = 0;  ///< bytes

  bool ok() const { return code == 0 && signal == 0; }
  /// "exit code 3", "killed by signal 11 (SIGSEGV)".
  std::string text() const;
};

/// "SIGSEGV" for 11.
std::string signal_name(int signal);

class Child {
 public:
  /// Errors (`environment`): no process or pipe to be had, the log file cannot be written. A program that cannot be executed
  /// shows as exit code 127.
  static Result<Child> start(const Command& command);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  /// A child still running is killed.
  ~Child();

  pid_t pid() const { return pid_; }
  int stdout_descriptor() const { return stdout_.get(); }
  int stderr_descriptor() const { return stderr_.get(); }
  /// To the whole group.
  void send(int signal) const;
  /// Nothing while it runs. Does not wait.
  std::optional<Exit> poll();
  Exit wait();

 private:
  Child() = default;
  pid_t pid_ = -1;
  Descriptor stdout_, stderr_;
  std::optional<Exit> exit_;
};

struct Captured {
  Exit exit;
  std::string output, errors;  ///< errors only with stderr_to_pipe; both cut at 16 MiB
  bool timed_out = false;      ///< killed because of the limit
  int interrupted = 0;         ///< the signal (SIGINT, SIGTERM) that made the host stop it
};

/// The last line of a text that is not empty, cut at so many bytes: what a child had to say in the end.
std::string last_words(const std::string& text, std::size_t most = std::string::npos);

/// Runs a child to its end, or to the limit (seconds; 0: none). A SIGINT or SIGTERM to the host (see Interrupts) is passed on,
/// and the child is killed 10 s later when it is still there.
Result<Captured> capture(const Command& command, double limit_seconds);

/// Of a monotonic clock.
double now_seconds();

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RUN_PROCESS_H_
