// Character vectors in an R lazy-load database (.rdb): a sequence of objects, each a big-endian length and a zlib stream that
// holds R's XDR serialisation. Only long character vectors (STRSXP) are looked for: a book is one vector of lines.
#include <cstdint>

#include "kernel/data/formats/format.h"
#include "kernel/data/packages/inflate.h"
#include "kernel/data/text/clean.h"
#include "kernel/data/text/unicode.h"

namespace moiety::data {
namespace {

constexpr std::uint32_t kCharacterVector = 16;  // STRSXP
constexpr std::uint32_t kCharacters = 9;        // CHARSXP
constexpr std::uint32_t kMissing = 0xFFFFFFFF;
constexpr std::size_t kFewestLines = 100;  // shorter vectors are names and attributes

bool read_word(std::string_view bytes, std::size_t position, std::uint32_t& word) {
  if (position > bytes.size() || bytes.size() - position < 4) return false;
  word = 0;
  for (std::size_t i = 0; i < 4; ++i) word = (word << 8) | static_cast<unsigned char>(bytes[position + i]);
  return true;
}

/// The lines of the vector of `count` strings at `position`, which moves past them; false when there is no such vector.
bool read_lines(std::string_view bytes, std::uint32_t count, std::size_t& position, std::string& text) {
  std::size_t at = position;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t flags = 0;
    std::uint32_t length = 0;
    if (!read_word(bytes, at, flags) || (flags & 0xFF) != kCharacters || !read_word(bytes, at + 4, length)) return false;
    at += 8;
    if (length != kMissing) {
      if (length > bytes.size() - at) return false;
      text += bytes.substr(at, length);
      at += length;
    }
    text += '\n';
  }
  position = at;
  return true;
}

void read_object(std::string_view bytes, std::vector<Entry>& entries) {
  constexpr std::string_view mark("\0\0\0\x10", 4);
  static_assert(kCharacterVector == 0x10);
  std::size_t failures = 0;
  for (std::size_t at = bytes.find(mark); at != std::string_view::npos; at = bytes.find(mark, at)) {
    std::uint32_t count = 0;
    std::size_t end = at + 8;
    std::string text;
    const bool plausible = read_word(bytes, at + 4, count) && count >= kFewestLines && count <= bytes.size() / 8;
    // A made-up object full of false starts must not take quadratic time; real ones have none.
    if (plausible && failures < 1000 && read_lines(bytes, count, end, text)) {
      entries.push_back({unwrap(to_utf8(text)), {}, {}});
      at = end;
    } else {
      failures += plausible;
      ++at;
    }
  }
}

Result<std::vector<Entry>> extract_rstr(const std::string& path, const Files& files) {
  const auto bytes = content_of(path, files);
  if (!bytes) return pass(bytes);
  std::vector<Entry> entries;
  std::string_view rest(*bytes);
  std::size_t total = 0;
  while (rest.size() > 4) {
    std::size_t taken = 0;
    const auto object = inflate_zlib(rest.substr(4), kInflateLimit, &taken);
    if (!object) return damaged(path, object.error().message);
    total += object->size();
    if (total > kInflateLimit) return damaged(path, "holds more text than any book");
    read_object(*object, entries);
    rest.remove_prefix(4 + taken);
  }
  return entries;
}

}  // namespace

const Format kRstr = {"rstr", "long character vectors of an R lazy-load database", extract_rstr};

}  // namespace moiety::data
