// SentencePiece behind a small door: BPE with byte fallback, so that every text survives encoding and decoding.
#ifndef MOIETY_KERNEL_DATA_CORPUS_TOKENIZER_H_
#define MOIETY_KERNEL_DATA_CORPUS_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/base/result.h"

namespace moiety::data {

/// Token ids are stored in 16 bits. Fewer than 300 leave no room beside the 256 bytes.
inline constexpr int kSmallestVocabulary = 300;
inline constexpr int kLargestVocabulary = 65535;

class Tokenizer {
 public:
  /// Learns `vocabulary` pieces from `texts` with one thread; the same texts give the same bytes. A vocabulary that the texts
  /// cannot fill is a usage error that says how many pieces they allow.
  static Result<Tokenizer> train(const std::vector<std::string_view>& texts, int vocabulary);
  static Result<Tokenizer> load(std::string_view model);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// Remembers words: not for two threads at once.
  std::vector<std::uint16_t> encode(std::string_view text) const;
  /// decode(encode(text)) = text for every valid UTF-8 without U+2581. Control tokens stand for nothing.
  std::string decode(const std::vector<std::uint16_t>& tokens) const;

  /// Bytes of the model file.
  const std::string& model() const;
  int vocabulary() const;
  /// The token that follows each document; encode() never returns it.
  std::uint16_t end_of_document() const;
  /// The text of a piece, for people: "▁the".
  std::string piece(std::uint16_t token) const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_CORPUS_TOKENIZER_H_
