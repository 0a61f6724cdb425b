// Small prepared data in the form that moiety-data writes, made of random numbers, for tests.
#ifndef MOIETY_KERNEL_ENGINE_TESTING_TINY_CORPUS_H_
#define MOIETY_KERNEL_ENGINE_TESTING_TINY_CORPUS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace moiety::engine::testing {

/// Tokens of a first-order chain: what comes next can be learned. Domains differ in size and in their chain.
struct TinyCorpus {
  std::int64_t vocabulary = 40;
  std::vector<std::int64_t> train_tokens{3000, 1500, 700};
  std::int64_t held_out_tokens = 400;  ///< of valid and test, each domain
};
/// Writes the folder; gives its "hash". Throws when it cannot.
std::string write_tiny_corpus(const std::string& folder, const TinyCorpus& corpus = {});

/// Items whose label can be told from their tokens.
struct TinyTask {
  std::int64_t vocabulary = 40, classes = 4, train_items = 300, held_out_items = 80;
};
std::string write_tiny_task(const std::string& folder, const TinyTask& task = {});

/// [model] of a model that trains in milliseconds.
nlohmann::json tiny_model();

}  // namespace moiety::engine::testing

#endif  // MOIETY_KERNEL_ENGINE_TESTING_TINY_CORPUS_H_
