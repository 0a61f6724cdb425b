#include "kernel/data/corpus/token_files.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <type_traits>

#include "kernel/base/files.h"
#include "kernel/base/hash.h"

namespace moiety::data {

void TokenSequences::add(const std::vector<std::uint16_t>& sequence) {
  tokens.insert(tokens.end(), sequence.begin(), sequence.end());
  offsets.push_back(tokens.size());
}

std::vector<std::uint16_t> TokenSequences::sequence(std::size_t index) const {
  return {tokens.begin() + static_cast<std::ptrdiff_t>(offsets[index]),
          tokens.begin() + static_cast<std::ptrdiff_t>(offsets[index + 1])};
}

template <class Integer>
std::string little_endian(const std::vector<Integer>& values) {
  std::string bytes;
  bytes.reserve(values.size() * sizeof(Integer));
  for (const Integer value : values) {
    const auto bits = static_cast<std::make_unsigned_t<Integer>>(value);
    for (std::size_t i = 0; i < sizeof(Integer); ++i) bytes.push_back(static_cast<char>((bits >> (8 * i)) & 0xFF));
  }
  return bytes;
}

template <class Integer>
Result<std::vector<Integer>> read_integers(const std::string& path) {
  const auto bytes = read_file(path);
  if (!bytes) return pass(bytes);
  if (bytes->size() % sizeof(Integer) != 0)
    return fail(ErrorKind::failed,
                fmt::format("{} is damaged: its size, {} bytes, is no multiple of {}", path, bytes->size(), sizeof(Integer)));
  std::vector<Integer> values(bytes->size() / sizeof(Integer));
  for (std::size_t at = 0; at < bytes->size(); ++at) {
    const auto byte = static_cast<std::uint64_t>(static_cast<unsigned char>((*bytes)[at]));
    auto& value = values[at / sizeof(Integer)];
    value = static_cast<Integer>(static_cast<std::uint64_t>(value) | (byte << (8 * (at % sizeof(Integer)))));
  }
  return values;
}

template std::string little_endian(const std::vector<std::uint16_t>&);
template std::string little_endian(const std::vector<std::uint64_t>&);
template std::string little_endian(const std::vector<std::int32_t>&);
template Result<std::vector<std::uint16_t>> read_integers(const std::string&);
template Result<std::vector<std::uint64_t>> read_integers(const std::string&);
template Result<std::vector<std::int32_t>> read_integers(const std::string&);

Status write_sequences(const TokenSequences& sequences, const std::string& tokens_path, const std::string& offsets_path) {
  if (auto status = write_file(tokens_path, little_endian(sequences.tokens)); !status) return status;
  return write_file(offsets_path, little_endian(sequences.offsets));
}

Result<TokenSequences> read_sequences(const std::string& tokens_path, const std::string& offsets_path) {
  auto tokens = read_integers<std::uint16_t>(tokens_path);
  if (!tokens) return pass(tokens);
  auto offsets = read_integers<std::uint64_t>(offsets_path);
  if (!offsets) return pass(offsets);
  bool sound = !offsets->empty() && offsets->front() == 0 && offsets->back() == tokens->size();
  for (std::size_t i = 1; sound && i < offsets->size(); ++i) sound = (*offsets)[i - 1] <= (*offsets)[i];
  if (!sound) return fail(ErrorKind::failed, fmt::format("{} is damaged: its offsets do not fit {}", offsets_path, tokens_path));
  return TokenSequences{std::move(*tokens), std::move(*offsets)};
}

nlohmann::json file_facts(const std::string& content) { return {{"bytes", content.size()}, {"sha256", sha256(content)}}; }

std::string tokens_path(const std::string& corpus, std::string_view domain, Part part) {
  return fmt::format("{}/tokens/{}.{}.u16", corpus, domain, name_of(part));
}

std::string documents_path(const std::string& corpus, std::string_view domain, Part part) {
  return fmt::format("{}/tokens/{}.{}.documents.u64", corpus, domain, name_of(part));
}

std::string task_path(const std::string& task, Part part, std::string_view what) {
  return fmt::format("{}/{}.{}", task, name_of(part), what);
}

}  // namespace moiety::data
