// What a person sees while a run goes on: on a terminal one line a running stage and one for the whole, redrawn in place;
// elsewhere plain lines (start, every 10 s, end).
#ifndef MOIETY_KERNEL_HOST_RUN_DISPLAY_H_
#define MOIETY_KERNEL_HOST_RUN_DISPLAY_H_

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace moiety::host {

/// A running stage.
struct LiveStage {
  std::string label;  ///< "tuned (arm clustered, seed 3)"
  std::string unit, phase;
  double done = 0, total = 0;
  std::optional<double> rate, loss, seconds_left;
};

struct LiveTotal {
  std::size_t done = 0, total = 0, running = 0, lost = 0;
  double seconds = 0;
  std::optional<double> seconds_left;
};

/// "tuned (arm clustered, seed 3)  41 %  18.2k tokens/s  loss 3.214  2 min left".
std::string line_of(const LiveStage& stage);
/// "12 of 55 stages done, 2 running, 3 lost; 4 min so far, 6 min left".
std::string line_of(const LiveTotal& total);
/// Whole seconds: "45 s", "2 min", "2 min 5 s", "1 h 5 min".
std::string rough_duration(double seconds);
/// 18,200 → "18.2k".
std::string short_number(double value);

class Display {
 public:
  enum class Mode { terminal, plain, quiet };
  /// terminal when `out` is one (and TERM is not dumb), else plain.
  static Mode mode_for(std::FILE* out, bool quiet);

  Display(std::FILE* out, Mode mode, double plain_every_seconds = 10);
  ~Display();
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;

  /// A line that stays. Not shown when quiet, unless it is important (a failure).
  void note(const std::string& line, bool important = false);
  void update(const std::vector<LiveStage>& stages, const LiveTotal& total, double now);

 private:
  void erase();
  void put(const std::string& text);

  std::FILE* out_;
  Mode mode_;
  double every_, last_ = -1e9;
  std::size_t drawn_ = 0;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RUN_DISPLAY_H_
