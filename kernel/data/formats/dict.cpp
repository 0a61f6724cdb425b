// A plain dictd dictionary: headword, then indented prose.
#include <algorithm>

#include "kernel/data/formats/dictd.h"
#include "kernel/data/formats/format.h"
#include "kernel/data/text/clean.h"

namespace moiety::data {
namespace {

constexpr std::size_t kDeepestIndent = 6;

/// Braces mark cross-references; the indent of the body is dropped so that its lines join.
std::string plain(std::string_view entry) {
  std::string text;
  text.reserve(entry.size());
  for (auto line : split_lines(entry)) {
    const std::size_t spaces = std::min(line.find_first_not_of(' '), line.size());
    if (spaces >= 2) line.remove_prefix(std::min(spaces, kDeepestIndent));
    std::copy_if(line.begin(), line.end(), std::back_inserter(text), [](char c) { return c != '{' && c != '}'; });
    text += '\n';
  }
  return text;
}

Result<std::vector<Entry>> extract_dict(const std::string& path, const Files& files) {
  auto texts = read_dictd(path, files);
  if (!texts) return pass(texts);
  std::vector<Entry> entries;
  for (const auto& text : *texts) entries.push_back({unwrap(plain(text)), {}, {}});
  return entries;
}

}  // namespace

const Format kDict = {"dict", "dictd dictionary with its index", extract_dict, dictd_main_file};

}  // namespace moiety::data
