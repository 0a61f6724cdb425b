#include "kernel/engine/data/task.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernel/base/files.h"

namespace moiety::engine {

Result<TaskFacts> TaskFacts::read(const std::string& path) {
  const auto text = read_file(path + "/task.json");
  if (!text) return pass(text);
  TaskFacts facts;
  facts.path = path;
  try {
    const auto json = nlohmann::json::parse(*text);
    if (json.at("format").get<int>() != 1)
      return fail(ErrorKind::environment, path + "/task.json has a format this program does not know");
    if (json.at("kind").get<std::string>() != "classification")
      return fail(ErrorKind::failed, path + " is not a classification task");
    facts.hash = json.at("hash").get<std::string>();
    facts.vocabulary = json.at("vocabulary").get<std::int64_t>();
    facts.classes = json.at("classes").get<std::vector<std::string>>();
    facts.train_items = json.at("splits").at("train").at("items").get<std::int64_t>();
    facts.train_tokens = json.at("splits").at("train").at("tokens").get<std::int64_t>();
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorKind::environment, path + "/task.json is damaged: " + error.what(),
                "run the recipe again: what is damaged is prepared anew");
  }
  if (facts.classes.size() < 2) return fail(ErrorKind::environment, path + "/task.json has fewer than two classes");
  return facts;
}

Result<Items> Items::open(const TaskFacts& facts, const char* split) {
  const std::string base = facts.path + "/" + split;
  auto tokens = MappedNumbers<std::uint16_t>::open(base + ".tokens.u16");
  if (!tokens) return pass(tokens);
  auto offsets = MappedNumbers<std::uint64_t>::open(base + ".offsets.u64");
  if (!offsets) return pass(offsets);
  auto labels = MappedNumbers<std::int32_t>::open(base + ".labels.i32");
  if (!labels) return pass(labels);
  const auto damaged = [&](const char* what) {
    return fail(ErrorKind::environment, fmt::format("{}.* is damaged: {}", base, what),
                "run the recipe again: what is damaged is prepared anew");
  };
  if (offsets->size() != labels->size() + 1) return damaged("offsets and labels do not belong together");
  for (std::int64_t i = 0; i < labels->size(); ++i) {
    if ((*offsets)[i] >= (*offsets)[i + 1]) return damaged("an item is empty");
    if ((*labels)[i] < 0 || (*labels)[i] >= facts.class_count()) return damaged("a label names no class");
  }
  if ((*offsets)[0] != 0 || (*offsets)[labels->size()] != static_cast<std::uint64_t>(tokens->size()))
    return damaged("offsets and tokens do not belong together");
  for (std::int64_t i = 0; i < tokens->size(); ++i)
    if ((*tokens)[i] >= facts.vocabulary) return damaged("a token is outside the vocabulary");
  Items items;
  items.tokens_ = std::move(*tokens);
  items.offsets_ = std::move(*offsets);
  items.labels_ = std::move(*labels);
  return items;
}

Result<TrainingTask> TrainingTask::open(const std::string& path) {
  TrainingTask task;
  auto facts = TaskFacts::read(path);
  if (!facts) return pass(facts);
  task.facts_ = std::move(*facts);
  auto train = Items::open(task.facts_, name(TrainingSplit::train));
  if (!train) return pass(train);
  auto valid = Items::open(task.facts_, name(TrainingSplit::valid));
  if (!valid) return pass(valid);
  task.train_ = std::move(*train);
  task.valid_ = std::move(*valid);
  return task;
}

Result<EvaluationTask> EvaluationTask::open(const std::string& path, Split split) {
  EvaluationTask task;
  auto facts = TaskFacts::read(path);
  if (!facts) return pass(facts);
  task.facts_ = std::move(*facts);
  auto items = Items::open(task.facts_, name(split));
  if (!items) return pass(items);
  task.items_ = std::move(*items);
  return task;
}

}  // namespace moiety::engine
