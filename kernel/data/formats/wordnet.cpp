// WordNet's data files (wndb(5WN)): one synset a line, "offset lexicographer-file type count word … | gloss".
#include <array>
#include <charconv>

#include "kernel/base/text.h"
#include "kernel/data/formats/format.h"
#include "kernel/data/text/clean.h"
#include "kernel/data/text/unicode.h"

namespace moiety::data {
namespace {

/// lexnames(5WN): the number in a synset is an index into this list.
constexpr std::array<std::string_view, 45> kLexicographerFiles = {"adj.all",          "adj.pert",           "adv.all",
                                                                  "noun.Tops",        "noun.act",           "noun.animal",
                                                                  "noun.artifact",    "noun.attribute",     "noun.body",
                                                                  "noun.cognition",   "noun.communication", "noun.event",
                                                                  "noun.feeling",     "noun.food",          "noun.group",
                                                                  "noun.location",    "noun.motive",        "noun.object",
                                                                  "noun.person",      "noun.phenomenon",    "noun.plant",
                                                                  "noun.possession",  "noun.process",       "noun.quantity",
                                                                  "noun.relation",    "noun.shape",         "noun.state",
                                                                  "noun.substance",   "noun.time",          "verb.body",
                                                                  "verb.change",      "verb.cognition",     "verb.communication",
                                                                  "verb.competition", "verb.consumption",   "verb.contact",
                                                                  "verb.creation",    "verb.emotion",       "verb.motion",
                                                                  "verb.perception",  "verb.possession",    "verb.social",
                                                                  "verb.stative",     "verb.weather",       "adj.ppl"};

bool read_number(std::string_view text, int base, std::size_t& value) {
  const auto end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  return error == std::errc() && stop == end && !text.empty();
}

/// "utility_program" → "utility program", "former(a)" → "former"
std::string plain_word(std::string word) {
  for (char& c : word) {
    if (c == '_') c = ' ';
  }
  if (const std::size_t open = word.find('('); word.back() == ')' && open > 0 && open != std::string::npos) word.erase(open);
  return word;
}

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

/// An empty text when the line is no synset.
Entry parse_synset(std::string_view line) {
  const std::size_t bar = line.find(" | ");
  if (bar == std::string_view::npos) return {};
  const auto fields = split(line.substr(0, bar), ' ');
  std::size_t file = 0;
  std::size_t words = 0;
  if (fields.size() < 5 || !read_number(fields[1], 10, file) || !read_number(fields[3], 16, words)) return {};
  if (file >= kLexicographerFiles.size() || words == 0 || 4 + 2 * words > fields.size()) return {};
  std::vector<std::string> names;
  for (std::size_t i = 0; i < words; ++i) {
    if (fields[4 + 2 * i].empty()) return {};
    names.push_back(plain_word(fields[4 + 2 * i]));
  }
  return {one_line(join(names, ", ") + ": " + std::string(line.substr(bar + 3))),
          {std::string(kLexicographerFiles[file])},
          lower(names[0])};
}

Result<std::vector<Entry>> extract_wordnet(const std::string& path, const Files& files) {
  const auto bytes = content_of(path, files);
  if (!bytes) return pass(bytes);
  const std::string text = to_utf8(*bytes);
  std::vector<Entry> entries;
  for (const auto line : split_lines(text)) {
    if (line.substr(0, 2) == "  ") continue;  // the licence at the head of each file
    if (auto entry = parse_synset(line); !entry.text.empty()) entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

const Format kWordnet = {"wordnet", "WordNet synsets: `words: gloss`, labelled by lexicographer file", extract_wordnet};

}  // namespace moiety::data
