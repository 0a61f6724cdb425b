#include "kernel/data/text/clean.h"

#include <algorithm>

#include "kernel/data/text/unicode.h"

namespace moiety::data {
namespace {

constexpr std::size_t kLongLine = 45;  // bytes; text that was wrapped on purpose has few longer lines

bool between(char32_t c, char32_t low, char32_t high) { return c >= low && c <= high; }

/// What replaces a character outside printable ASCII; nullptr when it stays as it is.
const char* replacement(char32_t c) {
  if (c == kInvalid) return "";
  if (c == '\n') return nullptr;
  if (c == '\t') return "    ";
  if (c < 0x20 || between(c, 0x7F, 0x9F)) return "";
  if (c == 0x2018 || c == 0x2019 || c == 0x201A || c == 0x2032) return "'";
  if (c == 0x201C || c == 0x201D || c == 0x201E || c == 0x2033) return "\"";
  if (between(c, 0x2010, 0x2013) || c == 0x2212) return "-";
  if (c == 0x2014) return " - ";
  if (c == 0x2026) return "...";
  if (c == 0xA0 || between(c, 0x2002, 0x200A) || c == 0x202F) return " ";
  const bool unseen =
      between(c, 0x200B, 0x200F) || between(c, 0x2028, 0x202E) || between(c, 0x2060, 0x2064) || c == 0xFEFF || c == 0xAD;
  const bool without_meaning = c == 0xB6 || c == 0xFFFD || between(c, 0xE000, 0xF8FF) || c >= 0xF0000 ||
                               between(c, 0xFDD0, 0xFDEF) || (c & 0xFFFE) == 0xFFFE;
  if (unseen || without_meaning || c == 0x2581) return "";
  return nullptr;
}

void end_line(std::string& text) {
  while (!text.empty() && text.back() == ' ') text.pop_back();
}

std::size_t indent(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t");
  return first == std::string_view::npos ? line.size() : first;
}

/// "- item", "* item", "3. item", "3) item"
bool starts_list_item(std::string_view line) {
  line.remove_prefix(indent(line));
  if (line.size() < 2) return false;
  const bool bullet = line[0] == '-' || line[0] == '*' || line[0] == 'o' || (line[0] >= '0' && line[0] <= '9');
  const bool mark = line[1] == '.' || line[1] == ')';
  return bullet && (line[1] == ' ' || (mark && line.size() > 2 && line[2] == ' '));
}

/// Tables, and command lines ("$ make \\"), which must not be joined.
bool has_layout(std::string_view line) {
  line = trim(line);
  if (line.empty()) return false;
  const bool table = line[0] == '|' || line[0] == '+' || line.find("   ") != std::string_view::npos;
  return table || line.substr(0, 2) == "$ " || line.back() == '\\';
}

std::string unwrap_block(std::string_view block) {
  const auto lines = split_lines(block);
  const auto long_lines = std::count_if(lines.begin(), lines.end() - 1, [](auto line) { return line.size() > kLongLine; });
  const bool wrapped = lines.size() > 1 && 10 * static_cast<std::size_t>(long_lines) >= 7 * (lines.size() - 1) &&
                       std::none_of(lines.begin(), lines.end(), has_layout);
  if (!wrapped) return std::string(block);
  std::string joined;
  joined.reserve(block.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) joined += starts_list_item(lines[i]) ? '\n' : ' ';
    joined += trim(lines[i]);
  }
  return joined;
}

}  // namespace

std::string normalise(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::size_t newlines = 2;  // so that no text starts with a blank line
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == '\n') {
      ++i;
      end_line(out);
      if (++newlines <= 2) out.push_back('\n');
    } else if (byte > 0x20 && byte < 0x7F) {
      out.push_back(text[i++]);
      newlines = 0;
    } else if (byte == ' ') {
      out.push_back(text[i++]);
    } else {
      const std::size_t begin = i;
      const char* const instead = replacement(next_code_point(text, i));
      if (instead == nullptr) {
        out += text.substr(begin, i - begin);
        newlines = 0;
      } else {
        out += instead;
        if (trim(instead) != "") newlines = 0;
      }
    }
  }
  while (!out.empty() && (out.back() == '\n' || out.back() == ' ')) out.pop_back();
  return out;
}

std::string unwrap(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const auto block : split_blocks(text)) {
    if (!out.empty()) out += "\n\n";
    out += unwrap_block(block);
  }
  return out;
}

std::string one_line(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
    if (!space) {
      out.push_back(c);
    } else if (!out.empty() && out.back() != ' ') {
      out.push_back(' ');
    }
  }
  end_line(out);
  return out;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  for (;;) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> split_blocks(std::string_view text) {
  std::vector<std::string_view> blocks;
  std::size_t begin = std::string_view::npos;  // of the block that is being read
  std::size_t end = 0;
  std::size_t position = 0;
  for (const auto line : split_lines(text)) {
    const bool blank = trim(line).empty();
    if (!blank) {
      if (begin == std::string_view::npos) begin = position;
      end = position + line.size();
    } else if (begin != std::string_view::npos) {
      blocks.push_back(text.substr(begin, end - begin));
      begin = std::string_view::npos;
    }
    position += line.size() + 1;
  }
  if (begin != std::string_view::npos) blocks.push_back(text.substr(begin, end - begin));
  return blocks;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view space = " \t\r\n\f\v";
  const std::size_t first = text.find_first_not_of(space);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(space) - first + 1);
}

}  // namespace moiety::data
