#include "kernel/engine/stages/training_text.h"

#include <fmt/format.h>

#include "kernel/base/hash.h"

namespace moiety::engine {

std::optional<CorpusFacts> planned_corpus(const Job& job, ConfigProblems& problems) {
  if (job.corpus.empty()) return CorpusFacts{};
  auto facts = CorpusFacts::read(job.corpus, job.corpus_fraction);
  if (facts) return std::move(*facts);
  problems.push_back({"corpus", facts.error().message});
  return std::nullopt;
}

std::optional<PlannedText> planned_text(const CorpusFacts& facts, const DataSelection& data, const Job& job, std::int64_t context,
                                        ConfigProblems& problems) {
  if (facts.domains.empty()) return PlannedText{};
  const auto selection = select_domains(data, facts.domains, job);
  if (selection) return PlannedText{selection->names, windows_of(pieces_of(*selection, facts.train_tokens, context), context)};
  problems.push_back({"data", selection.error().message});
  return std::nullopt;
}

Result<TrainingText> TrainingText::open(const TrainingCorpus& corpus, const DataSelection& data, const Job& job,
                                        std::int64_t context) {
  auto selection = select_domains(data, corpus.facts().domains, job);
  if (!selection) return pass(selection);
  TokenStreams train = selected(*selection, corpus.streams(TrainingSplit::train), context),
               valid = selected(*selection, corpus.streams(TrainingSplit::valid));
  for (const auto& [streams, what] : {std::pair{&train, "training"}, std::pair{&valid, "validation"}})
    if (streams->windows(context) == 0)
      return fail(ErrorKind::failed, fmt::format("no domain has as many {} tokens as the context is long", what));
  return TrainingText{std::move(*selection), WindowPool(train, context), std::move(valid)};
}

std::string TrainingText::position_name(std::size_t domain) const {
  const std::string& name = selection.names[domain];
  const bool cut = selection.tokens > 0 || selection.fraction < 1;
  return cut ? fmt::format("{} ({} windows)", name, pool.table.count[domain]) : name;
}

std::int64_t TrainingText::fingerprint(const Instance& sampler, const Instance& mixing) const {
  std::string text = fmt::format("{}\n{}", sampler.name, mixing.name);
  for (std::size_t d = 0; d < selection.names.size(); ++d)
    text += fmt::format("\n{} {}", selection.names[d], pool.table.count[d]);
  return std::stoll(sha256(text).substr(0, 15), nullptr, 16);
}

}  // namespace moiety::engine
