// A prepared corpus: token streams by domain and split.
#ifndef MOIETY_KERNEL_ENGINE_DATA_CORPUS_H_
#define MOIETY_KERNEL_ENGINE_DATA_CORPUS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/engine/data/split.h"
#include "kernel/engine/data/token_file.h"

namespace moiety::engine {

/// What corpus.json says.
struct CorpusFacts {
  std::string path, hash;
  std::int64_t vocabulary = 0;
  std::vector<std::string> domains;
  std::vector<std::int64_t> train_tokens;

  /// `fraction` of each domain's training text, from its beginning on, is all there is.
  static Result<CorpusFacts> read(const std::string& path, double fraction = 1);
};

/// The beginning of a stream: its number in the corpus, and how many tokens of it.
struct Piece {
  std::int64_t stream = 0, tokens = 0;

  std::int64_t windows(std::int64_t context) const { return tokens > context ? (tokens - 1) / context : 0; }
};
/// What a domain is made of: one stream, or those of a group.
using Pieces = std::vector<Piece>;

/// The text of one split, by domain. A window is `context` tokens with the tokens that follow them as targets; windows do not
/// overlap but for that one token, and never leave their stream.
class TokenStreams {
 public:
  std::int64_t domains() const { return static_cast<std::int64_t>(domains_.size()); }
  const Pieces& pieces(std::int64_t domain) const { return domains_[static_cast<std::size_t>(domain)]; }
  std::int64_t windows(std::int64_t domain, std::int64_t context) const;
  std::int64_t windows(std::int64_t context) const;  ///< of all domains
  /// The same text with other domains; a piece must lie within its stream.
  TokenStreams divided(std::vector<Pieces> domains) const;
  /// Where window `index` of a domain stands: the corpus's stream, and its number there.
  std::pair<std::int64_t, std::int64_t> place(std::int64_t domain, std::int64_t index, std::int64_t context) const;
  /// Copies window `index` of a domain: tokens[0 … context), targets[0 … context).
  void window(std::int64_t domain, std::int64_t index, std::int64_t context, std::int64_t* tokens, std::int64_t* targets) const;

 private:
  friend class TrainingCorpus;
  friend class EvaluationCorpus;
  static Result<TokenStreams> open(const CorpusFacts& facts, const char* split, double fraction = 1);
  std::vector<std::shared_ptr<const MappedNumbers<std::uint16_t>>> streams_;
  std::vector<Pieces> domains_;
};

/// What a training stage gets. It has no way to open a test split.
class TrainingCorpus {
 public:
  static Result<TrainingCorpus> open(const std::string& path, double fraction = 1);
  const CorpusFacts& facts() const { return facts_; }
  const TokenStreams& streams(TrainingSplit split) const { return split == TrainingSplit::train ? train_ : valid_; }

 private:
  CorpusFacts facts_;
  TokenStreams train_, valid_;
};

/// What a measuring stage gets.
class EvaluationCorpus {
 public:
  static Result<EvaluationCorpus> open(const std::string& path, Split split, double fraction = 1);
  const CorpusFacts& facts() const { return facts_; }
  const TokenStreams& streams() const { return streams_; }

 private:
  CorpusFacts facts_;
  TokenStreams streams_;
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_DATA_CORPUS_H_
