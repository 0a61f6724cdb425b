// Every call into a component goes through call(): it says which component is in flight (for the beat and for the crash line) and
// turns whatever is thrown into one exception type that names component and function.
//
//   const Routing r = call("route", instance, [&] { return router.route(input); });
#ifndef MOIETY_KERNEL_ENGINE_PLUGINS_GUARD_H_
#define MOIETY_KERNEL_ENGINE_PLUGINS_GUARD_H_

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>

namespace moiety::engine {

/// A component did what it must not: it threw, or what it returned is not what it promised.
class ComponentFailure : public std::exception {
 public:
  ComponentFailure(std::string component, std::string function, std::string text);
  const char* what() const noexcept override { return line_.c_str(); }  ///< "router/top-k@1: route: text", one line
  const std::string& component() const { return component_; }
  const std::string& function() const { return function_; }
  const std::string& text() const { return text_; }

 private:
  std::string component_, function_, text_, line_;
};

/// A component's call that has not returned.
struct InFlight {
  const char* component = "";  ///< "router/top-k@1"; never freed
  const char* function = "";
  double seconds = 0;  ///< since the call began
};

/// The call that has been in flight longest, on whichever thread; nothing when none is. Any thread may ask.
std::optional<InFlight> in_flight();

/// The innermost call of this thread, else of any thread; async-signal-safe: false when no call is in flight.
bool in_flight_for_signal(InFlight& found) noexcept;

/// `text` as a C string that lives as long as the process; equal texts give the same pointer.
const char* kept_text(const std::string& text);

/// While it lives, this thread is inside `component`. Scopes nest. Both texts must live as long as the process: a literal, or
/// kept_text().
class ComponentScope {
 public:
  ComponentScope(const char* component, const char* function) noexcept;
  ~ComponentScope();
  ComponentScope(const ComponentScope&) = delete;
  ComponentScope& operator=(const ComponentScope&) = delete;

 private:
  const char *outer_component_, *outer_function_;
  std::int64_t outer_since_;
};

/// Call it in a catch block: throws the current exception as a ComponentFailure (a ComponentFailure itself passes unchanged). c10
/// errors lose their backtrace.
[[noreturn]] void throw_as_failure(const char* component, const char* function);

/// Runs `body` for a component named by `component` (kept_text) and gives what it returns.
/// Throws ComponentFailure and nothing else.
template <class Body>
auto call(const char* function, const char* component, Body&& body) -> decltype(body()) {
  const ComponentScope scope(component, function);
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    throw_as_failure(component, function);
  }
}

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_PLUGINS_GUARD_H_
