#include "kernel/engine/plugins/crash.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstring>

#include "kernel/engine/plugins/guard.h"

namespace moiety::engine {
namespace {

std::atomic<int> crash_fd{-1};
alignas(16) char signal_stack[64 * 1024];

/// A line put together without anything that a signal handler must not call.
class Line {
 public:
  void add(const char* text) noexcept {
    for (; *text != '\0' && size_ < sizeof(text_); ++text) text_[size_++] = *text;
  }
  /// Names come from declarations; what could break the JSON becomes a question mark.
  void add_name(const char* text) noexcept {
    for (; *text != '\0' && size_ < sizeof(text_); ++text) {
      const char c = *text;
      text_[size_++] = c < ' ' || c == '"' || c == '\\' || c == '\x7f' ? '?' : c;
    }
  }
  void add(int number) noexcept {
    if (number >= 10) add(number / 10);
    const char digit[2] = {static_cast<char>('0' + number % 10), '\0'};
    add(digit);
  }
  void send(int fd) const noexcept {
    std::size_t sent = 0;
    while (sent < size_) {
      const ssize_t n = ::write(fd, text_ + sent, size_ - sent);
      if (n <= 0) return;
      sent += static_cast<std::size_t>(n);
    }
  }

 private:
  char text_[1024];
  std::size_t size_ = 0;
};

void on_crash(int signal_number) {
  // Only the first crash is told: another thread's, or one inside this handler, ends the process at once by the default action.
  const int fd = crash_fd.exchange(-1);
  if (fd >= 0) {
    Line line;
    line.add("{\"crash\":{\"signal\":");
    line.add(signal_number);
    InFlight call;
    if (in_flight_for_signal(call)) {
      line.add(",\"component\":\"");
      line.add_name(call.component);
      line.add("\",\"function\":\"");
      line.add_name(call.function);
      line.add("\"");
    }
    line.add("}}\n");
    line.send(fd);
  }
  // SA_RESETHAND restored the default action: the signal, raised again, ends the process with the true status.
  ::raise(signal_number);
}

}  // namespace

void install_crash_handler(int fd) {
  crash_fd = fd;
  stack_t stack{};
  stack.ss_sp = signal_stack;
  stack.ss_size = sizeof(signal_stack);
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = on_crash;
  action.sa_flags = SA_ONSTACK | SA_RESETHAND | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigaction(number, &action, nullptr);
}

}  // namespace moiety::engine
