// What a worker says on its stdout while it runs a stage: one JSON object a line (progress, beat, crash, end).
#ifndef MOIETY_KERNEL_HOST_RUN_PROTOCOL_H_
#define MOIETY_KERNEL_HOST_RUN_PROTOCOL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace moiety::host {

struct Progress {
  std::string unit, phase;
  double done = 0, total = 0;
  std::optional<double> loss;  ///< nothing when the stage measures none: the worker then says exactly 0
};

/// The component call in flight; `component` is empty between calls.
struct Beat {
  std::string component, function;
  double seconds = 0;  ///< how long the call has lasted
};

/// Written by the worker's signal handler: who was in flight.
struct Crash {
  int signal = 0;
  std::string component, function;
};

struct End {
  std::string state, error, component, function;
  std::int64_t tokens = 0, peak_memory = 0;
  double flops = 0, wall_seconds = 0, cpu_seconds = 0;
};

using Message = std::variant<Progress, Beat, Crash, End>;

/// One line. Nothing when it is not of the protocol (a plugin that writes to stdout of its own cannot disturb a run).
std::optional<Message> parse_message(std::string_view line);

/// Cuts a stream into lines. A line longer than 1 MiB is dropped.
class LineBuffer {
 public:
  /// The lines that are complete now, without their newline.
  std::vector<std::string> feed(std::string_view bytes);
  /// What is left when the stream ends.
  std::string rest();

 private:
  std::string pending_;
  bool dropping_ = false;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RUN_PROTOCOL_H_
