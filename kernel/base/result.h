// Result<T>: the value of an operation that may fail in an expected way, and Error: what to tell the user about it.
#ifndef MOIETY_KERNEL_BASE_RESULT_H_
#define MOIETY_KERNEL_BASE_RESULT_H_

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace moiety {

/// Why something failed. The values are the program's exit codes (README, "Exit codes").
enum class ErrorKind { failed = 1, usage = 2, environment = 3 };

/// One line that says what is wrong and where, and one that says what to do; never a stack trace.
struct Error {
  ErrorKind kind = ErrorKind::failed;
  std::string message;
  std::string hint;

  int exit_code() const { return static_cast<int>(kind); }
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(ErrorKind kind, std::string message, std::string hint = {}) {
  return tl::unexpected<Error>(Error{kind, std::move(message), std::move(hint)});
}
/// Passes an error on: `if (!a) return pass(a);`
template <class T>
tl::unexpected<Error> pass(const Result<T>& result) {
  return tl::unexpected<Error>(result.error());
}

}  // namespace moiety

#endif  // MOIETY_KERNEL_BASE_RESULT_H_
