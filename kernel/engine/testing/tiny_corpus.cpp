#include "kernel/engine/testing/tiny_corpus.h"

#include <fmt/format.h>

#include <stdexcept>

#include "kernel/base/files.h"
#include "kernel/base/hash.h"
#include "moiety/random.h"

namespace moiety::engine::testing {
namespace {

template <class T>
void write_numbers(const std::string& path, const std::vector<T>& numbers) {
  const auto status = write_file(path, {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)});
  if (!status) throw std::runtime_error(status.error().message);
}

void write_json(const std::string& path, const nlohmann::json& json) {
  const auto status = write_file(path, json.dump(1));
  if (!status) throw std::runtime_error(status.error().message);
}

}  // namespace

std::string write_tiny_corpus(const std::string& folder, const TinyCorpus& corpus) {
  if (auto status = make_folders(folder + "/tokens"); !status) throw std::runtime_error(status.error().message);
  nlohmann::json domains = nlohmann::json::array();
  for (std::size_t d = 0; d < corpus.train_tokens.size(); ++d) {
    const std::string name = fmt::format("domain{}", d);
    nlohmann::json tokens;
    for (const char* split : {"train", "valid", "test"}) {
      const std::int64_t n = std::string(split) == "train" ? corpus.train_tokens[d] : corpus.held_out_tokens;
      Random random = Random(7).fork(name).fork(split);
      std::vector<std::uint16_t> stream;
      std::vector<std::uint64_t> documents{0, static_cast<std::uint64_t>(n)};
      std::int64_t token = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        // Four times out of five the chain's next token, else any.
        token = random.below(5) > 0 ? (token * 7 + 3 + static_cast<std::int64_t>(d)) % corpus.vocabulary
                                    : random.below(corpus.vocabulary);
        stream.push_back(static_cast<std::uint16_t>(token));
      }
      write_numbers(fmt::format("{}/tokens/{}.{}.u16", folder, name, split), stream);
      write_numbers(fmt::format("{}/tokens/{}.{}.documents.u64", folder, name, split), documents);
      tokens[split] = n;
    }
    domains.push_back({{"name", name}, {"packages", nlohmann::json::array()}, {"tokens", tokens}});
  }
  const std::string hash = sha256("tiny corpus " + domains.dump());
  write_json(folder + "/corpus.json", {{"format", 1},
                                       {"name", "tiny"},
                                       {"version", 1},
                                       {"hash", hash},
                                       {"vocabulary", corpus.vocabulary},
                                       {"end_of_document", 1},
                                       {"domains", domains}});
  return hash;
}

std::string write_tiny_task(const std::string& folder, const TinyTask& task) {
  if (auto status = make_folders(folder); !status) throw std::runtime_error(status.error().message);
  nlohmann::json splits, classes = nlohmann::json::array();
  for (std::int64_t c = 0; c < task.classes; ++c) classes.push_back(fmt::format("class{}", c));
  for (const char* split : {"train", "valid", "test"}) {
    const std::int64_t n = std::string(split) == "train" ? task.train_items : task.held_out_items;
    Random random = Random(8).fork(split);
    std::vector<std::uint16_t> tokens;
    std::vector<std::uint64_t> offsets{0};
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t label = random.below(task.classes), length = 2 + random.below(7);
      for (std::int64_t t = 0; t < length; ++t) {
        const std::int64_t group = task.vocabulary / task.classes;
        tokens.push_back(
            static_cast<std::uint16_t>(t == length / 2 ? label * group + random.below(group) : random.below(task.vocabulary)));
      }
      offsets.push_back(tokens.size());
      labels.push_back(static_cast<std::int32_t>(label));
    }
    write_numbers(fmt::format("{}/{}.tokens.u16", folder, split), tokens);
    write_numbers(fmt::format("{}/{}.offsets.u64", folder, split), offsets);
    write_numbers(fmt::format("{}/{}.labels.i32", folder, split), labels);
    splits[split] = {{"items", n}, {"tokens", tokens.size()}};
  }
  const std::string hash = sha256("tiny task " + splits.dump());
  write_json(folder + "/task.json", {{"format", 1},
                                     {"name", "tiny"},
                                     {"version", 1},
                                     {"kind", "classification"},
                                     {"hash", hash},
                                     {"classes", classes},
                                     {"splits", splits},
                                     {"vocabulary", task.vocabulary},
                                     {"end_of_document", 1}});
  return hash;
}

nlohmann::json tiny_model() { return {{"family", "gpt"}, {"layers", 2}, {"width", 16}, {"heads", 2}, {"context", 16}}; }

}  // namespace moiety::engine::testing
