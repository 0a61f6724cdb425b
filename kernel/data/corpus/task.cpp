#include "kernel/data/corpus/task.h"

#include <fmt/format.h>

#include <map>

#include "kernel/base/files.h"
#include "kernel/base/hash.h"
#include "kernel/base/text.h"
#include "kernel/data/corpus/documents.h"
#include "kernel/data/corpus/token_files.h"
#include "kernel/data/text/clean.h"

namespace moiety::data {

Result<TaskText> build_task(const TaskDescription& task, const std::vector<Entry>& entries) {
  std::map<std::string, std::int32_t> label_of;
  for (const auto& name : task.classes) label_of.emplace(name, static_cast<std::int32_t>(label_of.size()));
  TaskText text;
  for (const auto& entry : entries) {
    const auto label = entry.labels.empty() ? label_of.end() : label_of.find(entry.labels.front());
    if (label == label_of.end())
      return fail(ErrorKind::failed, fmt::format("task {}: an item has the label `{}`, which is none of its classes", task.name,
                                                 printable(entry.labels.empty() ? "" : entry.labels.front())));
    const auto part = split_group(entry.group.empty() ? entry.text : entry.group, task.salt, task.split);
    text.items[static_cast<std::size_t>(part)].push_back({one_line(normalise(entry.text)), label->second});
  }
  for (const Part part : kParts) {
    if (text.of(part).empty())
      return fail(ErrorKind::failed, fmt::format("task {}: no item for the {} part", task.name, name_of(part)));
  }
  return text;
}

Result<nlohmann::json> write_task(const TaskDescription& task, const TaskText& text, const Tokenizer& tokenizer,
                                  const std::string& corpus_hash, const std::string& package_version, const std::string& folder) {
  if (auto status = make_folders(folder); !status) return pass(status);
  Sha256 hash;
  hash.update("moiety task 1\n").update(join(task.classes, "\n")).update("\n");
  nlohmann::json splits;
  nlohmann::json files;
  for (const Part part : kParts) {
    TokenSequences sequences;
    std::vector<std::int32_t> labels;
    std::size_t cut = 0;
    for (const auto& item : text.of(part)) {
      auto tokens = tokenizer.encode(item.text);
      if (tokenizer.decode(tokens) != item.text)
        return fail(ErrorKind::failed,
                    fmt::format("item {} of {} ({}) does not survive the tokenizer", labels.size(), task.name, name_of(part)));
      cut += tokens.size() > task.longest;
      if (tokens.size() > task.longest) tokens.resize(task.longest);
      sequences.add(tokens);
      labels.push_back(item.label);
    }
    const std::string tokens_file = task_path(folder, part, "tokens.u16");
    const std::string offsets_file = task_path(folder, part, "offsets.u64");
    const std::string labels_file = task_path(folder, part, "labels.i32");
    if (auto status = write_sequences(sequences, tokens_file, offsets_file); !status) return pass(status);
    if (auto status = write_file(labels_file, little_endian(labels)); !status) return pass(status);
    for (const auto& file : {tokens_file, offsets_file, labels_file}) {
      const auto bytes = read_file(file);
      if (!bytes) return pass(bytes);
      files[file.substr(folder.size() + 1)] = file_facts(*bytes);
      hash.update(file.substr(folder.size() + 1)).update(*bytes);
    }
    splits[std::string(name_of(part))] = {{"items", labels.size()}, {"tokens", sequences.tokens.size()}, {"cut", cut}};
  }
  nlohmann::json about = {{"format", 1},
                          {"name", task.name},
                          {"version", task.version},
                          {"kind", task.kind},
                          {"hash", hash.hex()},
                          {"classes", task.classes},
                          {"splits", std::move(splits)},
                          {"longest", task.longest},
                          {"vocabulary", tokenizer.vocabulary()},
                          {"end_of_document", tokenizer.end_of_document()},
                          {"corpus_hash", corpus_hash},
                          {"packages", {{{"package", task.source.package}, {"version", package_version}}}},
                          {"files", std::move(files)}};
  if (auto status = write_file(folder + "/task.json", about.dump(1) + "\n"); !status) return pass(status);
  return about;
}

}  // namespace moiety::data
