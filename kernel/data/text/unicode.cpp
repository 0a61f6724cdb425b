#include "kernel/data/text/unicode.h"

namespace moiety::data {
namespace {

unsigned byte_at(std::string_view text, std::size_t position) { return static_cast<unsigned char>(text[position]); }

}  // namespace

char32_t next_code_point(std::string_view text, std::size_t& position) {
  const unsigned first = byte_at(text, position++);
  if (first < 0x80) return first;
  const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  if (first < 0xC2 || first > 0xF4 || position + static_cast<std::size_t>(more) > text.size()) return kInvalid;
  char32_t value = first & (0x3Fu >> more);
  for (int i = 0; i < more; ++i) {
    const unsigned byte = byte_at(text, position + static_cast<std::size_t>(i));
    if ((byte & 0xC0) != 0x80) return kInvalid;
    value = (value << 6) | (byte & 0x3F);
  }
  const bool overlong = (more == 2 && value < 0x800) || (more == 3 && value < 0x10000);
  if (overlong || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return kInvalid;
  position += static_cast<std::size_t>(more);
  return value;
}

void append_code_point(std::string& text, char32_t c) {
  const auto tail = [&](int shift) { text.push_back(static_cast<char>(0x80 | ((c >> shift) & 0x3F))); };
  if (c < 0x80) {
    text.push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    text.push_back(static_cast<char>(0xC0 | (c >> 6)));
    tail(0);
  } else if (c < 0x10000) {
    text.push_back(static_cast<char>(0xE0 | (c >> 12)));
    tail(6);
    tail(0);
  } else {
    text.push_back(static_cast<char>(0xF0 | (c >> 18)));
    tail(12);
    tail(6);
    tail(0);
  }
}

bool is_utf8(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size();) {
    if (next_code_point(bytes, i) == kInvalid) return false;
  }
  return true;
}

std::string to_utf8(std::string_view bytes) {
  std::size_t sequences = 0;
  std::size_t stray = 0;
  for (std::size_t i = 0; i < bytes.size();) {
    const char32_t c = next_code_point(bytes, i);
    stray += c == kInvalid;
    sequences += c != kInvalid && c >= 0x80;
  }
  if (stray == 0) return std::string(bytes);
  std::string text;
  text.reserve(bytes.size() + stray);
  if (sequences > stray) {
    for (std::size_t i = 0; i < bytes.size();) {
      const char32_t c = next_code_point(bytes, i);
      if (c != kInvalid) append_code_point(text, c);
    }
  } else {
    for (const char byte : bytes) append_code_point(text, static_cast<unsigned char>(byte));
  }
  return text;
}

std::size_t count_characters(std::string_view utf8) {
  std::size_t count = 0;
  for (const char c : utf8) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

bool is_letter(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  if (c < 0xC0) return c == 0xAA || c == 0xB5 || c == 0xBA;
  if (c == 0xD7 || c == 0xF7) return false;
  const bool symbols = (c >= 0x2000 && c < 0x2C00) || (c >= 0x2E00 && c < 0x2E80) || (c >= 0x3000 && c < 0x3040);
  const bool forms = (c >= 0xFE10 && c < 0xFE70) || (c >= 0xFF00 && c < 0xFF21) || (c >= 0x1F000 && c < 0x1FB00);
  return !symbols && !forms && !(c >= 0xE000 && c < 0xF900);
}

std::string_view prefix(std::string_view utf8, std::size_t limit) {
  if (utf8.size() <= limit) return utf8;
  while (limit > 0 && (byte_at(utf8, limit) & 0xC0) == 0x80) --limit;
  return utf8.substr(0, limit);
}

}  // namespace moiety::data
