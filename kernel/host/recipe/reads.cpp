#include "kernel/host/recipe/reads.h"

#include <fmt/format.h>

#include "kernel/base/text.h"

namespace moiety::host {
std::optional<ReadText> parse_read(const std::string& text, std::string& problem) {
  ReadText result;
  const auto bracket = text.find('(');
  const auto close = bracket == std::string::npos ? bracket : text.find(')', bracket);
  const auto at = text.find('@', close == std::string::npos ? 0 : close);
  if (at != std::string::npos) result.snapshot = text.substr(at + 1);
  const std::string_view view = text;
  result.stage = trimmed(view.substr(0, std::min(bracket, at)));
  if (bracket == std::string::npos) return result;
  if (close == std::string::npos ||
      !trimmed(view.substr(close + 1, (at == std::string::npos ? text.size() : at) - close - 1)).empty()) {
    problem = "the brackets are not closed: write branch(axis=label) or branch(axis=*)";
    return std::nullopt;
  }
  for (const auto& part : split(text.substr(bracket + 1, close - bracket - 1), ',')) {
    const auto equals = part.find('=');
    const std::string_view pair = part;
    const std::string axis(trimmed(pair.substr(0, equals)));
    const std::string label(equals == std::string::npos ? std::string_view() : trimmed(pair.substr(equals + 1)));
    if (axis.empty() || label.empty()) {
      problem = "in the brackets stand axes: branch(axis=label), or branch(axis=*) for all labels";
      return std::nullopt;
    }
    if (!result.selected.emplace(axis, label).second) {
      problem = fmt::format("`{}` stands twice", axis);
      return std::nullopt;
    }
  }
  return result;
}

}  // namespace moiety::host
