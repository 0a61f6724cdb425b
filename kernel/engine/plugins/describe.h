// Declarations as JSON, for `moiety-worker --describe` and `--probe`. The forms are those that the host's catalog reads.
#ifndef MOIETY_KERNEL_ENGINE_PLUGINS_DESCRIBE_H_
#define MOIETY_KERNEL_ENGINE_PLUGINS_DESCRIBE_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "moiety/plugin.h"

namespace moiety::engine {

/// "not_top" in C++ is "not-top" in a recipe.
std::vector<std::string> choice_words(const Parameter& parameter);
/// The same of what MOIETY_CHOICE declares.
std::vector<std::string> words_of_choice(const char* declared);

/// {"name","type","kind","default","unit","doc","low","high","low_open","high_open","choices"}; "default" is absent for a
/// required parameter and null for an optional one.
nlohmann::json describe(const Parameter& parameter);
/// {"name","unit","better","axes":[…],"doc"}, with "when" where the metric depends on a key, "loss": true and "weight" for a
/// loss.
nlohmann::json describe(const Output& output);
template <class T, std::size_t n>
nlohmann::json describe_all(const T (&items)[n]) {
  nlohmann::json list = nlohmann::json::array();
  for (const T& item : items) list.push_back(describe(item));
  return list;
}
/// {"kind","name","version","summary","source","parameters","outputs"}. For each declared loss there is a number parameter
/// "losses.NAME" with the loss's weight as default, besides those the component declares.
nlohmann::json describe(const ComponentEntry& entry);

/// {"path","size","mtime_ns","build_id","plugin","build","components"} or {"path",…,"error":"one line","differs":[…]}. Opens the
/// file when its tag agrees: run it in a process of its own for an unknown file.
nlohmann::json probe(const std::string& path);

/// The build tag of this process as an object: the "build" that a plugin must have.
nlohmann::json describe_own_build();

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_PLUGINS_DESCRIBE_H_
