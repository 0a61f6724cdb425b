#include "kernel/engine/data/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernel/base/files.h"

namespace moiety::engine {

Result<CorpusFacts> CorpusFacts::read(const std::string& path) {
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
      facts.train_tokens.push_back(domain.at("tokens").at("train").get<std::int64_t>());
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

Result<TokenStreams> TokenStreams::open(const CorpusFacts& facts, const char* split) {
  TokenStreams streams;
  for (const auto& domain : facts.domains) {
    const std::string path = fmt::format("{}/tokens/{}.{}.u16", facts.path, domain, split);
    auto numbers = MappedNumbers<std::uint16_t>::open(path);
    if (!numbers) return pass(numbers);
    const std::uint16_t* end = numbers->data() + numbers->size();
    if (std::any_of(numbers->data(), end, [&](std::uint16_t token) { return token >= facts.vocabulary; }))
      return fail(ErrorKind::environment, path + " is damaged: a token is outside the vocabulary",
                  "run the recipe again: what is damaged is prepared anew");
    streams.streams_.push_back(std::move(*numbers));
  }
  return streams;
}

std::int64_t TokenStreams::windows(std::int64_t domain, std::int64_t context) const {
  return std::max<std::int64_t>(0, (tokens(domain) - 1) / context);
}

void TokenStreams::window(std::int64_t domain, std::int64_t index, std::int64_t context, std::int64_t* tokens,
                          std::int64_t* targets) const {
  const std::uint16_t* from = streams_[static_cast<std::size_t>(domain)].data() + index * context;
  std::copy(from, from + context, tokens);
  std::copy(from + 1, from + context + 1, targets);
}

Result<TrainingCorpus> TrainingCorpus::open(const std::string& path) {
  TrainingCorpus corpus;
  auto facts = CorpusFacts::read(path);
  if (!facts) return pass(facts);
  corpus.facts_ = std::move(*facts);
  auto train = TokenStreams::open(corpus.facts_, name(TrainingSplit::train));
  if (!train) return pass(train);
  auto valid = TokenStreams::open(corpus.facts_, name(TrainingSplit::valid));
  if (!valid) return pass(valid);
  corpus.train_ = std::move(*train);
  corpus.valid_ = std::move(*valid);
  return corpus;
}

Result<EvaluationCorpus> EvaluationCorpus::open(const std::string& path, Split split) {
  EvaluationCorpus corpus;
  auto facts = CorpusFacts::read(path);
  if (!facts) return pass(facts);
  corpus.facts_ = std::move(*facts);
  auto streams = TokenStreams::open(corpus.facts_, name(split));
  if (!streams) return pass(streams);
  corpus.streams_ = std::move(*streams);
  return corpus;
}

}  // namespace moiety::engine
