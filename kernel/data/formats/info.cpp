// GNU info files: nodes between U+001F lines; menus, indices, underlines and navigation go, prose is unwrapped.
#include <algorithm>

#include "kernel/data/formats/format.h"
#include "kernel/data/text/clean.h"
#include "kernel/data/text/unicode.h"

namespace moiety::data {
namespace {

constexpr char kNodeMark = '\x1f';

bool starts_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

/// "File: x.info,  Node: Concept index,  Next: …" → "Concept index"
std::string_view node_name(std::string_view header) {
  const std::size_t at = header.find("Node: ");
  if (at == std::string_view::npos) return {};
  header.remove_prefix(at + 6);
  return header.substr(0, header.find(','));
}

bool is_underline(std::string_view line) { return line.size() >= 3 && line.find_first_not_of("=*.-") == std::string_view::npos; }

/// "* Node::   description" or "* Text: Node.": an item of a menu
bool is_menu_item(std::string_view line) { return starts_with(line, "* ") && line.find("::") != std::string_view::npos; }

/// Texinfo's three references: "*Note X::" begins a sentence → "See X"; "(*note X::)" → "(see X)"; "*note X::" elsewhere → "X".
std::string_view introduction(std::string_view text, std::size_t star) {
  if (text[star + 1] == 'N') return "See ";
  return star > 0 && text[star - 1] == '(' ? "see " : "";
}

std::string plain_references(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t star = text.find('*', i);
    out += text.substr(i, star - i);
    if (star == std::string_view::npos) break;
    const auto word = text.substr(star, 5);
    if (word != "*note" && word != "*Note") {
      out += '*';
      i = star + 1;
      continue;
    }
    out += introduction(text, star);
    const std::size_t target = std::min(text.find_first_not_of(" \n", star + 5), text.size());
    const std::size_t colon = text.find(':', target);
    const bool bare = colon != std::string_view::npos && text.substr(colon, 2) == "::";
    out += text.substr(target, colon - target);
    i = colon == std::string_view::npos ? text.size() : colon + (bare ? 2 : 0);
  }
  return out;
}

std::string node_text(std::string_view node) {
  std::string text;
  bool first = true;
  for (const auto line : split_lines(node)) {
    const bool header = first;
    first = false;
    if (header || is_underline(line)) continue;
    if (starts_with(line, "* Menu:")) break;
    if (is_menu_item(line)) continue;
    text += line;
    text += '\n';
  }
  return unwrap(plain_references(text));
}

Result<std::vector<Entry>> extract_info(const std::string& path, const Files& files) {
  const auto bytes = content_of(path, files);
  if (!bytes) return pass(bytes);
  const std::string text = to_utf8(*bytes);
  std::vector<Entry> entries;
  std::size_t mark = text.find(kNodeMark);  // what stands before the first node is about the file
  while (mark != std::string::npos) {
    const std::size_t next = text.find(kNodeMark, mark + 1);
    std::string_view node = std::string_view(text).substr(mark + 1, next == std::string::npos ? next : next - mark - 1);
    mark = next;
    if (starts_with(node, "\n")) node.remove_prefix(1);
    if (!starts_with(node, "File:")) continue;  // the tag table
    const auto name = node_name(node.substr(0, node.find('\n')));
    if (ends_with(name, "ndex")) continue;
    entries.push_back({node_text(node), {}, {}});
  }
  return entries;
}

}  // namespace

const Format kInfo = {"info", "GNU info manual, a node an entry", extract_info};

}  // namespace moiety::data
