// Prepares a corpus and tasks in the store, or finds them there.
#ifndef MOIETY_KERNEL_DATA_COMMAND_PREPARE_H_
#define MOIETY_KERNEL_DATA_COMMAND_PREPARE_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/data/command/progress.h"

namespace moiety::data {

/// What a recipe needs: {"corpus":{"use","without","tokenizer":{"use","vocabulary"}},"tasks":["supersense@1"]}.
struct Request {
  std::string corpus;                ///< "debian-8" or "debian-8@1"
  std::vector<std::string> without;  ///< domains that are left out
  int vocabulary = 0;
  std::vector<std::string> tasks;
};

/// Strict: unknown keys and wrong types are usage errors.
Result<Request> parse_request(std::string_view json);

struct Places {
  std::string store;
  std::string recipes;
};

/// Returns {"corpus":{name,version,path,hash},"tasks":[…]} when all is in the store, else makes what is missing. Work is done
/// under a lock of the store: a second process waits, says so, and then finds everything.
Result<nlohmann::json> prepare(const Request& request, const Places& places, Progress& progress);

/// The same line without making anything; or {"missing":["corpus debian-8@1", …]}.
Result<nlohmann::json> check_prepared(const Request& request, const Places& places);

/// Content of FOLDER/`name` (corpus.json, task.json) when every file it lists is there in its stated size; null otherwise.
nlohmann::json read_prepared(const std::string& folder, const std::string& name);

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_COMMAND_PREPARE_H_
