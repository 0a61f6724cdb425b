// What every command prints with.
#ifndef MOIETY_KERNEL_HOST_RUN_PRINT_H_
#define MOIETY_KERNEL_HOST_RUN_PRINT_H_

#include <cstdio>
#include <string>

#include "kernel/base/result.h"

namespace moiety::host {

/// A text on standard output, as it is.
inline void put(const std::string& text) { std::fputs(text.c_str(), stdout); }

/// A line on standard error.
inline void say(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

/// An error as the program tells it everywhere: message, then what to do. Gives its exit code.
inline int complain(const Error& error) {
  say(error.message + (error.hint.empty() ? "" : "\n  " + error.hint));
  return error.exit_code();
}

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RUN_PRINT_H_
