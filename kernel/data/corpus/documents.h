// From extracted entries to documents: cleaning, junk and repetitions dropped, cut to size, packed, split.
#ifndef MOIETY_KERNEL_DATA_CORPUS_DOCUMENTS_H_
#define MOIETY_KERNEL_DATA_CORPUS_DOCUMENTS_H_

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kernel/data/corpus/description.h"

namespace moiety::data {

/// Characters, by what became of them.
struct CleaningCounts {
  std::size_t read = 0, kept = 0, repeated = 0, junk = 0;
};

/// Makes the documents of one domain. Rules: a block (what stands between blank lines) with fewer than 45 % letters is junk; a
/// block with at least 40 letters that was seen before in the domain is dropped, as is a short line from its ninth time on
/// (navigation); a document is cut at a blank line before it exceeds `document_bytes`; texts under 2,000 bytes are packed into
/// documents of about 4,000.
class DocumentBuilder {
 public:
  explicit DocumentBuilder(std::size_t document_bytes) : document_bytes_(document_bytes) {}

  /// Adds one text until `room` characters are kept; returns how many were. With `keep_layout` no block is dropped as junk or
  /// short.
  std::size_t add(std::string_view text, bool keep_layout, std::size_t room);
  /// What was packed and not yet full becomes the last document.
  std::vector<std::string> finish();
  const CleaningCounts& counts() const { return counts_; }

 private:
  bool wanted(std::string_view block, bool keep_layout);
  void append(std::string& document, std::string_view block);
  void close(std::string&& document);

  std::size_t document_bytes_;
  std::unordered_set<std::string> seen_;
  std::unordered_map<std::string, int> short_blocks_;
  std::string packed_;
  std::vector<std::string> documents_;
  CleaningCounts counts_;
};

/// Which part each of `count` documents belongs to: spread evenly, in the exact proportions of `split`.
std::vector<Part> split_documents(std::size_t count, const Split& split);

/// The part of a group of items, by a hash of its name: independent of all other groups.
Part split_group(std::string_view group, std::string_view salt, const Split& split);

/// Positions 0…n−1 in a fixed random order that depends on the names alone.
std::vector<std::size_t> order_by_hash(const std::vector<std::string>& names);

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_CORPUS_DOCUMENTS_H_
