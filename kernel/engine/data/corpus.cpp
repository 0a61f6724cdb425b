#include "kernel/engine/data/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "kernel/base/files.h"

namespace moiety::engine {
namespace {

std::int64_t beginning(double fraction, std::int64_t tokens) {
  return fraction >= 1 ? tokens : static_cast<std::int64_t>(std::floor(fraction * static_cast<double>(tokens)));
}

}  // namespace

Result<CorpusFacts> CorpusFacts::read(const std::string& path, double fraction) {
  const auto text = read_file(path + "/corpus.json");
  if (!text) return pass(text);
  CorpusFacts facts;
  facts.path = path;
  try {
    const auto json = nlohmann::json::parse(*text);
    if (json.at("format").get<int>() != 1)
      return fail(ErrorKind::environment, path + "/corpus.json has a format this program does not know");
    facts.hash = json.at("hash").get<std::string>();
    facts.vocabulary = json.at("vocabulary").get<std::int64_t>();
    for (const auto& domain : json.at("domains")) {
      facts.domains.push_back(domain.at("name").get<std::string>());
      facts.train_tokens.push_back(beginning(fraction, domain.at("tokens").at("train").get<std::int64_t>()));
      const std::string& name = facts.domains.back();
      if (name.empty() || name.find('/') != std::string::npos || name[0] == '.')
        return fail(ErrorKind::environment, path + "/corpus.json is damaged: a domain's name is no file name");
    }
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorKind::environment, path + "/corpus.json is damaged: " + error.what(),
                "run the recipe again: what is damaged is prepared anew");
  }
  if (facts.domains.empty() || facts.vocabulary < 1 || facts.vocabulary > 65536)
    return fail(ErrorKind::environment, path + "/corpus.json has no domain, or an impossible vocabulary");
  return facts;
}

Result<TokenStreams> TokenStreams::open(const CorpusFacts& facts, const char* split, double fraction) {
  TokenStreams streams;
  for (const auto& domain : facts.domains) {
    const std::string path = fmt::format("{}/tokens/{}.{}.u16", facts.path, domain, split);
    auto numbers = MappedNumbers<std::uint16_t>::open(path);
    if (!numbers) return pass(numbers);
    const std::uint16_t* end = numbers->data() + numbers->size();
    if (std::any_of(numbers->data(), end, [&](std::uint16_t token) { return token >= facts.vocabulary; }))
      return fail(ErrorKind::environment, path + " is damaged: a token is outside the vocabulary",
                  "run the recipe again: what is damaged is prepared anew");
    streams.domains_.push_back({{streams.domains(), beginning(fraction, numbers->size())}});
    streams.streams_.push_back(std::make_shared<const MappedNumbers<std::uint16_t>>(std::move(*numbers)));
  }
  return streams;
}

TokenStreams TokenStreams::divided(std::vector<Pieces> domains) const {
  for (const auto& pieces : domains)
    for (const Piece& piece : pieces)
      if (piece.tokens > streams_.at(static_cast<std::size_t>(piece.stream))->size())
        throw std::out_of_range("a domain is longer than its text");
  TokenStreams other = *this;
  other.domains_ = std::move(domains);
  return other;
}

std::int64_t TokenStreams::windows(std::int64_t domain, std::int64_t context) const {
  std::int64_t count = 0;
  for (const Piece& piece : pieces(domain)) count += piece.windows(context);
  return count;
}

std::int64_t TokenStreams::windows(std::int64_t context) const {
  std::int64_t count = 0;
  for (std::int64_t d = 0; d < domains(); ++d) count += windows(d, context);
  return count;
}

std::pair<std::int64_t, std::int64_t> TokenStreams::place(std::int64_t domain, std::int64_t index, std::int64_t context) const {
  for (const Piece& piece : pieces(domain)) {
    const std::int64_t there = piece.windows(context);
    if (index < there) return {piece.stream, index};
    index -= there;
  }
  throw std::out_of_range("no such window");
}

void TokenStreams::window(std::int64_t domain, std::int64_t index, std::int64_t context, std::int64_t* tokens,
                          std::int64_t* targets) const {
  const auto [stream, number] = place(domain, index, context);
  const std::uint16_t* from = streams_[static_cast<std::size_t>(stream)]->data() + number * context;
  std::copy(from, from + context, tokens);
  std::copy(from + 1, from + context + 1, targets);
}

Result<TrainingCorpus> TrainingCorpus::open(const std::string& path, double fraction) {
  TrainingCorpus corpus;
  auto facts = CorpusFacts::read(path, fraction);
  if (!facts) return pass(facts);
  corpus.facts_ = std::move(*facts);
  auto train = TokenStreams::open(corpus.facts_, name(TrainingSplit::train), fraction);
  if (!train) return pass(train);
  auto valid = TokenStreams::open(corpus.facts_, name(TrainingSplit::valid));
  if (!valid) return pass(valid);
  corpus.train_ = std::move(*train);
  corpus.valid_ = std::move(*valid);
  return corpus;
}

Result<EvaluationCorpus> EvaluationCorpus::open(const std::string& path, Split split, double fraction) {
  EvaluationCorpus corpus;
  auto facts = CorpusFacts::read(path, fraction);
  if (!facts) return pass(facts);
  corpus.facts_ = std::move(*facts);
  auto streams = TokenStreams::open(corpus.facts_, name(split), split == Split::train ? fraction : 1);
  if (!streams) return pass(streams);
  corpus.streams_ = std::move(*streams);
  return corpus;
}

}  // namespace moiety::engine
