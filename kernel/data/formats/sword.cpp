// Modules of the SWORD project (zText, zCom): compressed blocks (.?zz), their index (.?zs: offset, compressed size, size) and the
// verse table (.?zv: block, offset in it, length), all little-endian; the text carries OSIS tags.
#include <algorithm>
#include <array>
#include <cstdint>
#include <set>

#include "kernel/data/formats/format.h"
#include "kernel/data/packages/inflate.h"
#include "kernel/data/text/clean.h"
#include "kernel/data/text/entities.h"
#include "kernel/data/text/unicode.h"

namespace moiety::data {
namespace {

constexpr std::size_t kBlockRecord = 12;
constexpr std::size_t kLongVerse = 400;  // a comment, not a verse: a paragraph of its own

std::uint32_t read_integer(std::string_view bytes, std::size_t position, std::size_t width) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < width; ++i)
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[position + i])) << (8 * i);
  return value;
}

struct Verse {
  std::uint32_t block, offset, length;
};

/// Lengths take two bytes in zText, four in the newer zText4 and zCom4, which name their files .czz.
std::vector<Verse> read_verses(std::string_view table, bool wide) {
  const std::size_t record = wide ? 12 : 10;
  std::vector<Verse> verses;
  for (std::size_t at = 0; at + record <= table.size(); at += record)
    verses.push_back({read_integer(table, at, 4), read_integer(table, at + 4, 4), read_integer(table, at + 8, record - 8)});
  return verses;
}

Result<std::vector<std::string>> read_blocks(std::string_view index, std::string_view data) {
  std::vector<std::string> blocks;
  std::size_t total = 0;
  for (std::size_t at = 0; at + kBlockRecord <= index.size(); at += kBlockRecord) {
    const std::size_t offset = read_integer(index, at, 4);
    const std::size_t size = read_integer(index, at + 4, 4);
    if (offset > data.size() || size > data.size() - offset) return fail(ErrorKind::failed, "its index points outside the file");
    if (size == 0) {
      blocks.emplace_back();
      continue;
    }
    auto block = inflate_zlib(data.substr(offset, size), kInflateLimit - total);
    if (!block) return pass(block);
    total += block->size();
    blocks.push_back(std::move(*block));
  }
  return blocks;
}

enum class Break { none, line, paragraph };

Break break_of(std::string_view tag) {
  constexpr std::array<std::string_view, 2> lines = {"l", "lb"};
  constexpr std::array<std::string_view, 6> paragraphs = {"div", "chapter", "p", "milestone", "title", "lg"};
  if (!tag.empty() && tag.front() == '/') tag.remove_prefix(1);
  const auto name = tag.substr(0, tag.find_first_of(" \t\n/>"));
  if (std::find(lines.begin(), lines.end(), name) != lines.end()) return Break::line;
  return std::find(paragraphs.begin(), paragraphs.end(), name) != paragraphs.end() ? Break::paragraph : Break::none;
}

/// Notes go with their text, tags that end a line or paragraph become that, all others vanish.
std::string without_tags(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t open = text.find('<', i);
    out += text.substr(i, open - i);
    if (open == std::string_view::npos) break;
    const std::size_t close = text.find('>', open);
    if (close == std::string_view::npos) break;
    const auto tag = text.substr(open + 1, close - open - 1);
    i = close + 1;
    const bool note = tag.substr(0, 5) == "note " || tag == "note";
    if (note && tag.back() != '/') {
      const std::size_t end = text.find("</note>", i);
      if (end != std::string_view::npos) i = end + 7;
      out += ' ';  // the space after a word often stands inside its note
    } else if (const Break kind = break_of(tag); kind != Break::none) {
      out += kind == Break::line ? "\n" : "\n\n";
    }
  }
  return decode_entities(out);
}

/// Single spaces, none before punctuation or at line ends; an empty line only where a paragraph ends.
std::string tidy(std::string_view text) {
  constexpr std::string_view closing = ",.;:?!\n";
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i] == '\t' ? ' ' : text[i];
    const bool after_gap = !out.empty() && (out.back() == ' ' || out.back() == '\n');
    if (c == ' ' && after_gap) continue;
    if (!out.empty() && out.back() == ' ' && closing.find(c) != std::string_view::npos) out.pop_back();
    // "</l><l>": two ends of a line are one, unless a paragraph ends ("\n\n" at once)
    const bool paragraph = c == '\n' && i + 1 < text.size() && text[i + 1] == '\n';
    if (c == '\n' && !paragraph && !out.empty() && out.back() == '\n') continue;
    out.push_back(c);
  }
  return out;
}

void append_verse(std::string& text, std::string verse) {
  const bool joined = !text.empty() && text.back() != '\n' && text.back() != ' ';
  if (joined && !verse.empty() && verse.front() != '\n' && verse.front() != ' ') text += ' ';
  const bool is_long = verse.size() > kLongVerse;
  text += verse;
  if (is_long) text += "\n\n";
}

Result<std::vector<Entry>> extract_sword(const std::string& path, const Files& files) {
  const auto part = [&](char last) { return content_of(path.substr(0, path.size() - 1) + last, files); };
  const auto data = part('z');
  const auto index = part('s');
  const auto table = part('v');
  for (const auto* file : {&data, &index, &table}) {
    if (!*file) return pass(*file);
  }
  const auto blocks = read_blocks(*index, *data);
  if (!blocks) return damaged(path, blocks.error().message);
  std::vector<Entry> entries;
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;  // a comment on several verses stands in the table once for each
  std::uint32_t current = 0;
  for (const auto& verse : read_verses(*table, ends_with(path, ".czz"))) {
    if (verse.length == 0 || verse.block >= blocks->size()) continue;
    const std::string& block = (*blocks)[verse.block];
    if (verse.offset > block.size() || verse.length > block.size() - verse.offset) continue;
    if (!seen.emplace(verse.block, verse.offset).second) continue;
    if (entries.empty() || verse.block != current) entries.emplace_back();
    current = verse.block;
    append_verse(entries.back().text, tidy(without_tags(to_utf8(std::string_view(block).substr(verse.offset, verse.length)))));
  }
  return entries;
}

/// "ot.bzs", "ot.bzv" → "ot.bzz"
std::string main_file(std::string_view path) {
  std::string main(path);
  if (ends_with(path, "zs") || ends_with(path, "zv")) main.back() = 'z';
  return main;
}

}  // namespace

const Format kSword = {"sword", "SWORD bibles and commentaries (zText, zCom), a block an entry", extract_sword, main_file};

}  // namespace moiety::data
