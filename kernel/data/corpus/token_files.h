// Token files: little-endian arrays of integers, as the engine maps them into memory.
#ifndef MOIETY_KERNEL_DATA_CORPUS_TOKEN_FILES_H_
#define MOIETY_KERNEL_DATA_CORPUS_TOKEN_FILES_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/data/corpus/description.h"

namespace moiety::data {

/// Sequences of tokens, one after another: sequence i is tokens[offsets[i] … offsets[i+1]).
struct TokenSequences {
  std::vector<std::uint16_t> tokens;
  std::vector<std::uint64_t> offsets = {0};  ///< one more than there are sequences

  std::size_t size() const { return offsets.size() - 1; }
  void add(const std::vector<std::uint16_t>& sequence);
  std::vector<std::uint16_t> sequence(std::size_t index) const;
};

/// The bytes of the values, least significant first, on any machine.
template <class Integer>
std::string little_endian(const std::vector<Integer>& values);

/// Integers of a file; an error when its size is no multiple of theirs.
template <class Integer>
Result<std::vector<Integer>> read_integers(const std::string& path);

Status write_sequences(const TokenSequences& sequences, const std::string& tokens_path, const std::string& offsets_path);
/// Refuses offsets that do not start at 0, fall, or do not end at the number of tokens.
Result<TokenSequences> read_sequences(const std::string& tokens_path, const std::string& offsets_path);

/// What the description of a prepared folder says of a file: {"bytes": …, "sha256": …}.
nlohmann::json file_facts(const std::string& content);

// Places inside a prepared corpus or task.
std::string tokens_path(const std::string& corpus, std::string_view domain, Part part);
std::string documents_path(const std::string& corpus, std::string_view domain, Part part);
std::string task_path(const std::string& task, Part part, std::string_view what);

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_CORPUS_TOKEN_FILES_H_
