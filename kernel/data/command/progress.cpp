#include "kernel/data/command/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace moiety::data {

Progress::Style Progress::style_of_stderr() { return ::isatty(STDERR_FILENO) == 1 ? Style::terminal : Style::lines; }

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (open_line_) fmt::print(stderr, "\r\x1b[K");
  open_line_ = false;
}

double Progress::seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

void Progress::step(const std::string& what) {
  if (style_ == Style::silent) return;
  if (style_ == Style::terminal) {
    fmt::print(stderr, "\r\x1b[K{:5.1f} s  {}", seconds(), what);
    std::fflush(stderr);
    open_line_ = true;
  } else {
    fmt::print(stderr, "{:5.1f} s  {}\n", seconds(), what);
  }
}

void Progress::note(const std::string& what) {
  if (style_ == Style::silent) return;
  clear();
  fmt::print(stderr, "{:5.1f} s  {}\n", seconds(), what);
}

}  // namespace moiety::data
