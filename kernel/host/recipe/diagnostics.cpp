#include "kernel/host/recipe/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kernel/base/text.h"

namespace moiety::host {

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  auto lines = split(text, '\n');
  for (auto& line : lines) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
  }
  return lines;
}

}  // namespace

void Sources::put(int index, std::string name, const std::string& text, Place extended_from) {
  sources_[static_cast<std::size_t>(index)] = {std::move(name), lines_of(text), true, extended_from};
}

int Sources::add(std::string name, const std::string& text) {
  sources_.push_back({std::move(name), lines_of(text), false, {}});
  return size() - 1;
}

std::string Sources::text(const Place& place) const {
  if (!place.known()) return {};
  const Source& source = (*this)[place.source];
  if (!source.file) return source.name;
  return place.line > 0 ? fmt::format("{}:{}:{}", source.name, place.line, place.column) : source.name;
}

void Diagnostics::add(Diagnostic diagnostic) {
  ++told_;
  if (spoilt_.count(diagnostic.place) != 0) return;
  if (diagnostic.topic.empty()) diagnostic.topic = diagnostic.message;
  const bool known = std::any_of(list_.begin(), list_.end(), [&](const Diagnostic& other) {
    return other.place == diagnostic.place && other.topic == diagnostic.topic;
  });
  if (!known) list_.push_back(std::move(diagnostic));
}

namespace {

constexpr std::size_t reference_column = 45;
constexpr std::size_t longest_line = 160;

/// The line and the caret under it. A long line is cut to the part around the caret.
std::string excerpt(const Source& source, const Place& place) {
  if (place.line < 1 || static_cast<std::size_t>(place.line) > source.lines.size()) return {};
  const std::string& line = source.lines[static_cast<std::size_t>(place.line) - 1];
  std::string shown, under;
  int column = 1;
  const int first = place.column > 100 && width(line) > longest_line ? place.column - 60 : 1;
  for (std::size_t i = 0; i < line.size();) {
    std::size_t next = i + 1;
    while (next < line.size() && (static_cast<unsigned char>(line[next]) & 0xC0U) == 0x80) ++next;
    if (column >= first && column < first + static_cast<int>(longest_line)) {
      // A tab stays a tab in both lines, so that the caret keeps its place whatever the terminal's tabs are.
      const bool tab = line[i] == '\t';
      const std::string piece = tab ? "\t" : printable(line.substr(i, next - i));
      shown += piece;
      if (column < place.column) under += tab ? "\t" : std::string(width(piece), ' ');
    }
    ++column;
    i = next;
  }
  const int rest = std::max(1, column - place.column);
  under +=
      std::string(static_cast<std::size_t>(std::clamp(place.length, 1, std::min(rest, static_cast<int>(longest_line)))), '^');
  const std::string gutter = source.file ? fmt::format("{:5}", place.line) : std::string(5, ' ');
  return gutter + " | " + shown + "\n      | " + under + "\n";
}

}  // namespace

std::string Diagnostics::text() const {
  auto ordered = list_;
  std::stable_sort(ordered.begin(), ordered.end(), [&](const Diagnostic& a, const Diagnostic& b) { return a.place < b.place; });
  std::string out;
  std::set<std::string> files;
  bool elsewhere = false;
  std::vector<std::string> remarks;
  for (const auto& diagnostic : ordered) {
    for (const auto& remark : diagnostic.remarks) {
      if (std::find(remarks.begin(), remarks.end(), remark) == remarks.end()) remarks.push_back(remark);
    }
    const std::string where = sources_->text(diagnostic.place);
    out += printable(where) + (where.empty() ? "" : ": ") + "error: " + printable(diagnostic.message) + "\n";
    if (diagnostic.place.known()) {
      const Source& source = (*sources_)[diagnostic.place.source];
      out += excerpt(source, diagnostic.place);
      if (source.file) files.insert(source.name);
      elsewhere = elsewhere || !source.file;
    }
    if (!diagnostic.suggestion.empty() || !diagnostic.reference.empty()) {
      std::string line = "  " + printable(diagnostic.suggestion);
      if (!diagnostic.reference.empty()) {
        if (!diagnostic.suggestion.empty()) line += std::string(std::max(reference_column, width(line) + 2) - width(line), ' ');
        line += diagnostic.reference;
      }
      out += line + "\n";
    }
    for (const auto& note : diagnostic.notes) out += "  " + printable(note) + "\n";
    if (diagnostic.place.known()) {
      Place from = (*sources_)[diagnostic.place.source].extended_from;
      for (int level = 0; from.known() && level < 16; ++level) {
        out += "  extended by " + printable(sources_->text(from)) + "\n";
        from = (*sources_)[from.source].extended_from;
      }
    }
  }
  for (const auto& remark : remarks) out += printable(remark) + "\n";
  out += fmt::format("{} error{}", ordered.size(), ordered.size() == 1 ? "" : "s");
  if (!files.empty()) out += fmt::format(" in {} file{}", files.size(), files.size() == 1 ? "" : "s");
  if (elsewhere) out += files.empty() ? " on the command line" : " and the command line";
  return out + "; nothing was run";
}

tl::unexpected<Error> Diagnostics::as_error() const { return fail(ErrorKind::usage, text()); }

std::string ordinal(int n) {
  const bool teen = n % 100 >= 11 && n % 100 <= 13;
  const char* suffix = teen ? "th" : n % 10 == 1 ? "st" : n % 10 == 2 ? "nd" : n % 10 == 3 ? "rd" : "th";
  return std::to_string(n) + suffix;
}

}  // namespace moiety::host
