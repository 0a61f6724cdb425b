#include "kernel/host/claims/statement_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "kernel/base/text.h"

namespace moiety::host {

/// The place of some bytes of the text: exact where the text stands on one line as it is, else the whole value.
Place StatementText::inside(std::size_t begin, std::size_t end) const {
  Place place = written_.place;
  if (!place.known() || place.line < 1) return place;
  const auto& lines = diagnostics_.sources()[place.source].lines;
  if (static_cast<std::size_t>(place.line) > lines.size()) return place;
  const std::string& line = lines[static_cast<std::size_t>(place.line) - 1];
  std::size_t offset = 0;
  for (int column = 1; column < place.column && offset < line.size(); ++column) {
    ++offset;
    while (offset < line.size() && (static_cast<unsigned char>(line[offset]) & 0xC0U) == 0x80) ++offset;
  }
  const std::size_t quote = offset < line.size() && (line[offset] == '"' || line[offset] == '\'') ? 1 : 0;
  if (line.compare(offset + quote, written_.text.size(), written_.text) != 0) return place;
  const std::string_view text = written_.text;
  begin = std::min(begin, text.size());
  place.column += static_cast<int>(quote + width(text.substr(0, begin)));
  place.length = static_cast<int>(std::max<std::size_t>(1, width(text.substr(begin, std::min(end, text.size()) - begin))));
  return place;
}

void StatementText::error(std::size_t begin, std::size_t end, const std::string& message, const std::string& hint,
                          const std::string& reference) const {
  const Place place = inside(begin, end);
  std::vector<std::string> notes;
  if (place == written_.place && place.length == written_.place.length && begin > 0)
    notes.push_back("here: " + written_.text.substr(begin, end - begin));
  diagnostics_.error(place, fmt::format("{}: {}", path_, message), hint, reference, notes);
}

}  // namespace moiety::host
