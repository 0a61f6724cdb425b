// Labelled tasks: items of text with a class each, split by groups, encoded with a corpus' tokenizer.
#ifndef MOIETY_KERNEL_DATA_CORPUS_TASK_H_
#define MOIETY_KERNEL_DATA_CORPUS_TASK_H_

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/data/corpus/description.h"
#include "kernel/data/corpus/tokenizer.h"
#include "kernel/data/formats/format.h"

namespace moiety::data {

struct Item {
  std::string text;
  std::int32_t label = 0;
};

struct TaskText {
  std::array<std::vector<Item>, 3> items;  ///< by Part
  const std::vector<Item>& of(Part part) const { return items[static_cast<std::size_t>(part)]; }
};

/// Cleans the entries and splits them by group. An entry whose label is no class of the task is an error.
Result<TaskText> build_task(const TaskDescription& task, const std::vector<Entry>& entries);

/// Encodes the items (cut at `task.longest` tokens), checks the round trip of each, writes token, offset and label files and
/// task.json into `folder`. Returns the content of task.json.
Result<nlohmann::json> write_task(const TaskDescription& task, const TaskText& text, const Tokenizer& tokenizer,
                                  const std::string& corpus_hash, const std::string& package_version, const std::string& folder);

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_CORPUS_TASK_H_
