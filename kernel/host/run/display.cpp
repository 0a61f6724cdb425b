#include "kernel/host/run/display.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "kernel/base/text.h"

namespace moiety::host {
namespace {

std::size_t columns(std::FILE* out) {
  winsize size{};
  if (::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

/// Cut to a number of code points; never inside one.
std::string cut(const std::string& text, std::size_t most) {
  if (width(text) <= most) return text;
  std::size_t points = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U;
    if (begins && points++ == most - 1) return text.substr(0, i) + "…";
  }
  return text;
}

}  // namespace

std::string short_number(double value) {
  if (!std::isfinite(value)) return number(value);
  constexpr double kThousand = 1e3;
  const char* const units[] = {"", "k", "M", "G", "T", "P"};
  std::size_t unit = 0;
  while (std::fabs(value) >= 999.5 && unit + 1 < std::size(units)) {
    value /= kThousand;
    ++unit;
  }
  const double size = std::fabs(value);
  const int digits = size >= 99.95 || (unit == 0 && value == std::floor(value)) ? 0 : 1;
  return fmt::format("{:.{}f}{}", value, digits, units[unit]);
}

std::string rough_duration(double seconds) {
  const auto whole = static_cast<long long>(std::ceil(std::min(std::max(seconds, 0.0), 3.6e9)));
  const auto pair = [](long long large, const char* large_unit, long long small, const char* small_unit) {
    return fmt::format("{} {}", large, large_unit) + (small == 0 ? "" : fmt::format(" {} {}", small, small_unit));
  };
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 600) return pair(whole / 60, "min", whole % 60, "s");
  const auto minutes = (whole + 59) / 60;
  if (minutes < 60) return fmt::format("{} min", minutes);
  return pair(minutes / 60, "h", minutes % 60, "min");
}

std::string line_of(const LiveStage& stage) {
  std::string line = stage.label;
  if (!stage.phase.empty() && stage.phase != "train") line += "  " + printable(stage.phase);
  if (stage.total > 0) line += fmt::format("  {:.0f} %", std::floor(100 * std::min(1.0, stage.done / stage.total)));
  if (stage.rate)
    line += fmt::format("  {} {}/s", short_number(*stage.rate), stage.unit.empty() ? "units" : printable(stage.unit));
  if (stage.loss) line += fmt::format("  loss {:.3f}", *stage.loss);
  if (stage.seconds_left) line += "  " + rough_duration(*stage.seconds_left) + " left";
  return line;
}

std::string line_of(const LiveTotal& total) {
  std::string line = fmt::format("{} of {} stages done", total.done, total.total);
  if (total.running > 0) line += fmt::format(", {} running", total.running);
  if (total.lost > 0) line += fmt::format(", {} lost", total.lost);
  line += "; " + rough_duration(std::floor(total.seconds)) + " so far";
  if (total.seconds_left) line += ", about " + rough_duration(*total.seconds_left) + " left";
  return line;
}

Display::Mode Display::mode_for(std::FILE* out, bool quiet) {
  if (quiet) return Mode::quiet;
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return ::isatty(::fileno(out)) == 1 && !dumb ? Mode::terminal : Mode::plain;
}

Display::Display(std::FILE* out, Mode mode, double plain_every_seconds) : out_(out), mode_(mode), every_(plain_every_seconds) {}

Display::~Display() { erase(); }

void Display::put(const std::string& text) {
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
}

void Display::erase() {
  if (drawn_ == 0) return;
  put(fmt::format("\x1b[{}A\r\x1b[J", drawn_));
  drawn_ = 0;
}

void Display::note(const std::string& line, bool important) {
  if (mode_ == Mode::quiet && !important) return;
  erase();
  put(line + "\n");
  if (mode_ == Mode::terminal) last_ = -1e9;  // draw again soon
}

void Display::update(const std::vector<LiveStage>& stages, const LiveTotal& total, double now) {
  if (mode_ == Mode::quiet) return;
  if (mode_ == Mode::plain) {
    if (last_ < 0) last_ = now;
    if (now - last_ < every_) return;
    last_ = now;
    for (const auto& stage : stages) put(line_of(stage) + "\n");
    put(line_of(total) + "\n");
    return;
  }
  if (now - last_ < 0.2) return;
  last_ = now;
  const auto most = std::max<std::size_t>(columns(out_), 2) - 1;
  std::string text = drawn_ > 0 ? fmt::format("\x1b[{}A\r\x1b[J", drawn_) : "";
  for (const auto& stage : stages) text += cut(line_of(stage), most) + "\n";
  text += cut(line_of(total), most) + "\n";
  drawn_ = stages.size() + 1;
  put(text);
}

}  // namespace moiety::host
