#include "kernel/host/run/interrupts.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>

namespace moiety::host {
namespace {

std::array<int, 2> wake = {-1, -1};
std::atomic<int> first{0};
std::atomic<int> times{0};
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

void note(int signal) {
  const int before = errno;
  if (signal != SIGCHLD) {
    int none = 0;
    first.compare_exchange_strong(none, signal);
    times.fetch_add(1);
  }
  // A full pipe wakes just as well.
  [[maybe_unused]] const auto written = ::write(wake[1], "s", 1);
  errno = before;
}

}  // namespace

void Interrupts::install() {
  if (wake[0] >= 0) return;
  if (::pipe2(wake.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    wake = {-1, -1};
    return;
  }
  struct sigaction action {};
  action.sa_handler = note;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) ::sigaction(signal, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

int Interrupts::descriptor() { return wake[0]; }
int Interrupts::pending() { return first.load(); }
int Interrupts::count() { return times.load(); }

void Interrupts::drain() {
  std::array<char, 64> buffer;
  while (wake[0] >= 0 && ::read(wake[0], buffer.data(), buffer.size()) > 0) {
  }
}

}  // namespace moiety::host
