// Fortune files: short texts between lines that hold a single `%`. Their line breaks are part of the joke and stay.
#include "kernel/data/formats/format.h"
#include "kernel/data/text/clean.h"
#include "kernel/data/text/unicode.h"

namespace moiety::data {
namespace {

/// "_\bword": the overstruck character goes (how teletypes underlined).
std::string without_overstrikes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c != '\b') {
      out.push_back(c);
    } else if (!out.empty()) {
      while (out.size() > 1 && (static_cast<unsigned char>(out.back()) & 0xC0) == 0x80) out.pop_back();
      out.pop_back();
    }
  }
  return out;
}

bool is_separator(std::string_view line) {
  line = trim(line);
  return !line.empty() && line.find_first_not_of('%') == std::string_view::npos;
}

Result<std::vector<Entry>> extract_fortune(const std::string& path, const Files& files) {
  const auto bytes = content_of(path, files);
  if (!bytes) return pass(bytes);
  const std::string text = without_overstrikes(to_utf8(*bytes));
  std::vector<Entry> entries(1);
  for (const auto line : split_lines(text)) {
    if (is_separator(line)) {
      if (!entries.back().text.empty()) entries.emplace_back();
    } else {
      entries.back().text += line;
      entries.back().text += '\n';
    }
  }
  return entries;
}

}  // namespace

const Format kFortune = {"fortune", "short texts between lines of %", extract_fortune};

}  // namespace moiety::data
