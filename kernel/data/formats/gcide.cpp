// The Collaborative International Dictionary of English in dictd form: entries with pronunciations between backslashes,
// references in braces, source tags in brackets, and fields of knowledge in parentheses: "(Zool.)".
#include <algorithm>
#include <array>

#include "kernel/data/formats/dictd.h"
#include "kernel/data/formats/format.h"
#include "kernel/data/text/clean.h"

namespace moiety::data {
namespace {

/// "[1913 Webster]", "[PJC]", "[1913 Webster +PJC]": which editions an entry comes from. "[AS. l[=a]ng]" is an etymology.
bool is_source_tag(std::string_view inside) {
  constexpr std::array<std::string_view, 10> sources = {
      "1913 Webster", "PJC", "WordNet 1.5", "Webster 1913 Suppl", "AS", "RHUD", "RH", "Century Dict. 1906", "RP", "HC"};
  bool any = false;
  for (;;) {
    inside.remove_prefix(std::min(inside.find_first_not_of(" +.\n"), inside.size()));
    if (inside.empty()) return any;
    const auto source =
        std::find_if(sources.begin(), sources.end(), [&](auto name) { return inside.substr(0, name.size()) == name; });
    if (source == sources.end()) return false;
    inside.remove_prefix(source->size());
    any = true;
  }
}

std::string without_marks(std::string_view entry) {
  std::string text;
  text.reserve(entry.size());
  for (std::size_t i = 0; i < entry.size(); ++i) {
    if (entry[i] == '[') {
      const std::size_t close = entry.find(']', i);
      if (close != std::string_view::npos && is_source_tag(entry.substr(i + 1, close - i - 1))) {
        i = close;
        continue;
      }
    }
    if (entry[i] != '{' && entry[i] != '}') text.push_back(entry[i]);
  }
  return text;
}

/// Length of " (w[^u]rk)" at the start of `text`; 0 when there is none. A field of knowledge, "(Zool.)", has no such marks.
std::size_t phonetic_spelling(std::string_view text) {
  constexpr std::size_t longest = 80;
  if (text.substr(0, 2) != " (") return 0;
  const std::size_t close = text.substr(0, longest).find(')');
  if (close == std::string_view::npos || text.substr(0, close).find_first_of("[\"`*'\n") == std::string_view::npos) return 0;
  return close + 1;
}

/// "Work \Work\ (w[^u]rk), v. t." → "Work, v. t."
std::string without_pronunciation(std::string text) {
  const std::size_t open = text.find('\\');
  const std::size_t close = open == std::string::npos ? open : text.find('\\', open + 1);
  if (close == std::string::npos || text.find('\n') < close) return text;
  std::size_t end = close + 1;
  end += phonetic_spelling(std::string_view(text).substr(end));
  if (end < text.size() && text[end] == ',') ++end;
  std::size_t begin = open;
  while (begin > 0 && text[begin - 1] == ' ') --begin;
  return text.replace(begin, end - begin, ",");
}

void erase_all(std::string& text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) text.erase(at, part.size());
}

/// "(Zool.)" → "Zool", "(Physiol. Chem.)" → "Physiol. Chem"
std::vector<std::string> fields_of_knowledge(std::string_view text) {
  constexpr std::size_t longest = 22;
  std::vector<std::string> labels;
  for (std::size_t open = text.find('('); open != std::string_view::npos; open = text.find('(', open + 1)) {
    auto inside = text.substr(open + 1, longest + 1);
    inside = inside.substr(0, inside.find(')'));
    if (inside.size() < 2 || inside.size() > longest || inside[0] < 'A' || inside[0] > 'Z') continue;
    const auto allowed = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' || c == ' '; };
    if (!std::all_of(inside.begin(), inside.end(), allowed)) continue;
    if (inside.back() == '.') inside.remove_suffix(1);
    labels.emplace_back(inside);
  }
  return labels;
}

Result<std::vector<Entry>> extract_gcide(const std::string& path, const Files& files) {
  auto texts = read_dictd(path, files);
  if (!texts) return pass(texts);
  std::vector<Entry> entries;
  for (const auto& raw : *texts) {
    std::string text = without_pronunciation(without_marks(raw));
    erase_all(text, "(?)");
    text = one_line(text);
    auto labels = fields_of_knowledge(text);
    entries.push_back({std::move(text), std::move(labels), {}});
  }
  return entries;
}

}  // namespace

const Format kGcide = {"gcide", "GNU Collaborative International Dictionary of English, labelled by field", extract_gcide,
                       dictd_main_file};

}  // namespace moiety::data
