// What the program is doing, on stderr: one line that changes on a terminal, plain lines when piped.
#ifndef MOIETY_KERNEL_DATA_COMMAND_PROGRESS_H_
#define MOIETY_KERNEL_DATA_COMMAND_PROGRESS_H_

#include <chrono>
#include <string>

namespace moiety::data {

class Progress {
 public:
  enum class Style { silent, lines, terminal };
  explicit Progress(Style style = Style::silent) : style_(style) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `lines` or `terminal`, as stderr is.
  static Style style_of_stderr();

  /// Names the step that starts now.
  void step(const std::string& what);
  /// Takes the changing line away.
  void clear();
  /// A line that stays.
  void note(const std::string& what);

 private:
  double seconds() const;

  Style style_;
  bool open_line_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_COMMAND_PROGRESS_H_
