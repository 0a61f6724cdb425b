#include "kernel/data/corpus/documents.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>
#include <utility>

#include "kernel/data/text/clean.h"
#include "kernel/data/text/unicode.h"

namespace moiety::data {
namespace {

constexpr std::size_t kSmallText = 2000;  // bytes; smaller texts are packed
constexpr std::size_t kPackedDocument = 4000;
constexpr std::size_t kSmallestText = 40;  // bytes; a page without text leaves a title
constexpr std::size_t kShortBlock = 48;    // characters
constexpr int kShortBlockRepeats = 8;
constexpr std::size_t kTellingLetters = 40;  // a block with fewer may well occur twice
constexpr std::size_t kComparedBytes = 200;
constexpr double kFewestLetters = 0.45;

unsigned long crc(std::string_view text) {
  return ::crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size()));
}

struct Letters {
  std::string text;  ///< lower case for ASCII
  std::size_t count = 0;
};

Letters letters_of(std::string_view block) {
  Letters letters;
  letters.text.reserve(block.size());
  for (std::size_t i = 0; i < block.size();) {
    const char32_t c = next_code_point(block, i);
    if (!is_letter(c)) continue;
    append_code_point(letters.text, c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    ++letters.count;
  }
  return letters;
}

/// The longest start of `text` within `limit` bytes that ends at a line, else a sentence, else a word, else a character.
std::string_view natural_prefix(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  const auto start = prefix(text, limit);
  for (const std::string_view mark : {"\n", ". ", " "}) {
    const std::size_t at = start.rfind(mark);
    if (at != std::string_view::npos && at > limit / 2) return start.substr(0, at + (mark == ". " ? 1 : 0));
  }
  return start;
}

}  // namespace

bool DocumentBuilder::wanted(std::string_view block, bool keep_layout) {
  const auto letters = letters_of(block);
  if (letters.count == 0) return false;
  const std::size_t characters = count_characters(block);
  if (!keep_layout) {
    if (static_cast<double>(letters.count) < kFewestLetters * static_cast<double>(characters)) {
      counts_.junk += characters;
      return false;
    }
    if (characters < kShortBlock && ++short_blocks_[letters.text] > kShortBlockRepeats) {
      counts_.repeated += characters;
      return false;
    }
  }
  if (letters.count < kTellingLetters) return true;
  const auto key = letters.text.substr(0, kComparedBytes) + std::to_string(letters.count);
  if (seen_.insert(key).second) return true;
  counts_.repeated += characters;
  return false;
}

void DocumentBuilder::append(std::string& document, std::string_view block) {
  while (!block.empty()) {
    const std::string_view gap = document.empty() ? "" : "\n\n";
    if (!document.empty() && document.size() + gap.size() + block.size() > document_bytes_) {
      documents_.push_back(std::exchange(document, {}));
      continue;
    }
    const auto part = natural_prefix(block, document_bytes_);
    document += gap;
    document += part;
    block.remove_prefix(part.size());
    if (!block.empty() && (block[0] == '\n' || block[0] == ' ')) block.remove_prefix(1);  // where it was cut
  }
}

void DocumentBuilder::close(std::string&& document) {
  if (document.size() < kSmallestText) return;
  if (document.size() >= kSmallText) {
    documents_.push_back(std::move(document));
    return;
  }
  append(packed_, document);
  if (packed_.size() > kPackedDocument) documents_.push_back(std::exchange(packed_, {}));
}

std::size_t DocumentBuilder::add(std::string_view text, bool keep_layout, std::size_t room) {
  const std::string clean = normalise(text);
  counts_.read += count_characters(clean);
  std::string document;
  std::size_t kept = 0;
  for (const auto block : split_blocks(clean)) {
    if (kept >= room) break;
    if (!wanted(block, keep_layout)) continue;
    kept += count_characters(block);
    append(document, block);
  }
  close(std::move(document));
  counts_.kept += kept;
  return kept;
}

std::vector<std::string> DocumentBuilder::finish() {
  if (packed_.size() >= kSmallestText) documents_.push_back(std::exchange(packed_, {}));
  return std::exchange(documents_, {});
}

std::vector<Part> split_documents(std::size_t count, const Split& split) {
  const std::array<int, 3> shares = {split.train, split.valid, split.test};
  std::array<int, 3> owed = {0, 0, 0};
  std::vector<Part> parts(count);
  for (auto& part : parts) {
    for (std::size_t i = 0; i < shares.size(); ++i) owed[i] += shares[i];
    const auto most = static_cast<std::size_t>(std::max_element(owed.begin(), owed.end()) - owed.begin());
    owed[most] -= 100;
    part = kParts[most];
  }
  return parts;
}

Part split_group(std::string_view group, std::string_view salt, const Split& split) {
  const auto place = static_cast<int>(crc(std::string(salt) + std::string(group)) % 100);
  if (place < split.train) return Part::train;
  return place < split.train + split.valid ? Part::valid : Part::test;
}

std::vector<std::size_t> order_by_hash(const std::vector<std::string>& names) {
  std::vector<unsigned long> keys;
  keys.reserve(names.size());
  for (const auto& name : names) keys.push_back(crc(name));
  std::vector<std::size_t> order(names.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return std::tie(keys[a], names[a], a) < std::tie(keys[b], names[b], b); });
  return order;
}

}  // namespace moiety::data
