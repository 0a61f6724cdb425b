// A corpus in memory: the documents of each domain, split; and its folder of token files.
#ifndef MOIETY_KERNEL_DATA_CORPUS_CORPUS_H_
#define MOIETY_KERNEL_DATA_CORPUS_CORPUS_H_

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/data/command/progress.h"
#include "kernel/data/corpus/description.h"
#include "kernel/data/corpus/documents.h"
#include "kernel/data/corpus/tokenizer.h"
#include "kernel/data/formats/format.h"
#include "kernel/data/packages/packages.h"

namespace moiety::data {

struct DomainText {
  std::string name;
  std::array<std::vector<std::string>, 3> documents;  ///< by Part
  CleaningCounts counts;
  std::vector<Package> packages;

  const std::vector<std::string>& of(Part part) const { return documents[static_cast<std::size_t>(part)]; }
};

/// Reads the chosen files of a source and extracts what its labels admit, in an order that depends on the names of files alone.
Result<std::vector<Entry>> extract_source(const Source& source, const Package& package);

/// Reads, extracts and cleans every domain. A document never occurs twice in the corpus.
Result<std::vector<DomainText>> build_domains(const CorpusDescription& corpus, const std::vector<std::string>& without,
                                              const std::map<std::string, Package>& packages, Progress& progress);

/// What the tokenizer may see: the train documents, nothing else.
std::vector<std::string_view> training_texts(const std::vector<DomainText>& domains);

/// Encodes every document, checks decode(encode(d)) = d for each, writes tokens, tokenizer.model and corpus.json into `folder`.
/// Returns the content of corpus.json.
Result<nlohmann::json> write_corpus(const CorpusDescription& corpus, const std::vector<DomainText>& domains,
                                    const Tokenizer& tokenizer, const std::string& folder, Progress& progress);

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_CORPUS_CORPUS_H_
