#include "kernel/data/command/show.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "kernel/base/files.h"
#include "kernel/base/text.h"
#include "kernel/data/corpus/token_files.h"
#include "kernel/data/corpus/tokenizer.h"

namespace moiety::data {
namespace fs = std::filesystem;
using nlohmann::json;
namespace {

/// Prepared folders in STORE/`kind` whose `file` names `name`, sorted.
std::vector<std::pair<std::string, json>> prepared(const Places& places, const std::string& kind, const std::string& file,
                                                   const std::string& name) {
  std::vector<std::pair<std::string, json>> found;
  std::error_code error;
  for (auto entry = fs::directory_iterator(places.store + "/" + kind, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    json about = read_prepared(entry->path().string(), file);
    if (!about.is_null() && about.value("name", json()) == name) found.emplace_back(entry->path().string(), std::move(about));
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string source_line(const Source& source) {
  return fmt::format("      {:<24} {:<8} {:>3.0f} %   {}\n", source.package, source.format, 100 * source.share, source.licence);
}

std::string show_corpus(const CorpusDescription& corpus, const Places& places) {
  std::string text = fmt::format("corpus {}@{}\n  {}\n", corpus.name, corpus.version, corpus.about);
  text += fmt::format("  train/valid/test {}/{}/{} by document\n\n", corpus.split.train, corpus.split.valid, corpus.split.test);
  for (std::size_t i = 0; i < corpus.domains.size(); ++i) {
    const auto& domain = corpus.domains[i];
    text += fmt::format("  {:<12} {:>9.0f} characters   {}\n", domain.name, corpus.characters(i), domain.about);
    for (const auto& source : domain.sources) text += source_line(source);
  }
  for (const auto& [path, about] : prepared(places, "corpora", "corpus.json", corpus.name)) {
    text += fmt::format("\nprepared with {} pieces: {}\n  hash {}\n", about["vocabulary"].dump(), path,
                        about["hash"].get<std::string>());
    text += fmt::format("  {:<12} {:>9} {:>11} {:>9} {:>9} {:>9}   packages\n", "domain", "documents", "characters", "train",
                        "valid", "test");
    for (const auto& domain : about["domains"]) {
      std::vector<std::string> packages;
      for (const auto& package : domain["packages"])
        packages.push_back(package["package"].get<std::string>() + " " + package["version"].get<std::string>());
      long long documents = 0;
      long long characters = 0;
      for (const Part part : kParts) {
        documents += domain["documents"][std::string(name_of(part))].get<long long>();
        characters += domain["characters"][std::string(name_of(part))].get<long long>();
      }
      const auto& tokens = domain["tokens"];
      text +=
          fmt::format("  {:<12} {:>9} {:>11} {:>9} {:>9} {:>9}   {}\n", domain["name"].get<std::string>(), documents, characters,
                      tokens["train"].dump(), tokens["valid"].dump(), tokens["test"].dump(), join(packages, ", "));
    }
  }
  return text;
}

std::string show_task(const TaskDescription& task, const Places& places) {
  std::string text =
      fmt::format("task {}@{} ({}, {} classes)\n  {}\n", task.name, task.version, task.kind, task.classes.size(), task.about);
  text += fmt::format("  train/valid/test {}/{}/{} by group, items cut at {} tokens\n", task.split.train, task.split.valid,
                      task.split.test, task.longest);
  text += source_line(task.source);
  for (const auto& [path, about] : prepared(places, "tasks", "task.json", task.name)) {
    text += fmt::format("\nprepared: {}\n  hash {}\n", path, about["hash"].get<std::string>());
    for (const Part part : kParts) {
      const auto& split = about["splits"][std::string(name_of(part))];
      text += fmt::format("  {:<6} {:>8} items {:>9} tokens, {} cut\n", name_of(part), split["items"].dump(),
                          split["tokens"].dump(), split["cut"].dump());
    }
  }
  return text;
}

}  // namespace

Result<std::string> list_all(const Places& places) {
  std::string text;
  for (const auto& name : list_descriptions(places.recipes, "corpora")) {
    const auto corpus = find_corpus(name, places.recipes);
    if (!corpus) return pass(corpus);
    const auto ready = prepared(places, "corpora", "corpus.json", name).size();
    text += fmt::format("corpus  {:<20} {}{}\n", fmt::format("{}@{}", name, corpus->version), corpus->about,
                        ready > 0 ? "  [prepared]" : "");
  }
  for (const auto& name : list_descriptions(places.recipes, "tasks")) {
    const auto task = find_task(name, places.recipes);
    if (!task) return pass(task);
    const auto ready = prepared(places, "tasks", "task.json", name).size();
    text += fmt::format("task    {:<20} {}{}\n", fmt::format("{}@{}", name, task->version), task->about,
                        ready > 0 ? "  [prepared]" : "");
  }
  if (text.empty())
    return fail(ErrorKind::usage, fmt::format("there are no corpora or tasks in {}", places.recipes),
                "name the folder with --recipes");
  return text;
}

Result<std::string> show(const std::string& use, const Places& places) {
  const auto name = use.substr(0, use.find('@'));
  const auto corpora = list_descriptions(places.recipes, "corpora");
  const auto tasks = list_descriptions(places.recipes, "tasks");
  if (std::find(tasks.begin(), tasks.end(), name) != tasks.end()) {
    const auto task = find_task(use, places.recipes);
    if (!task) return pass(task);
    return show_task(*task, places);
  }
  if (std::find(corpora.begin(), corpora.end(), name) != corpora.end()) {
    const auto corpus = find_corpus(use, places.recipes);
    if (!corpus) return pass(corpus);
    return show_corpus(*corpus, places);
  }
  auto all = corpora;
  all.insert(all.end(), tasks.begin(), tasks.end());
  const std::string near = did_you_mean(name, all);
  return fail(ErrorKind::usage, fmt::format("unknown corpus or task `{}`", printable(name)),
              near.empty() ? "there are: " + join(all, ", ") : near);
}

Result<std::string> decode_document(const std::string& corpus, const std::string& domain, Part part, std::size_t document) {
  const json about = read_prepared(corpus, "corpus.json");
  if (about.is_null())
    return fail(ErrorKind::usage, "no prepared corpus in " + corpus, "moiety-data show NAME prints where it lies");
  std::vector<std::string> names;
  for (const auto& entry : about["domains"]) names.push_back(entry["name"]);
  if (std::find(names.begin(), names.end(), domain) == names.end())
    return fail(ErrorKind::usage, fmt::format("unknown domain `{}`", printable(domain)), "there are: " + join(names, ", "));
  const auto sequences = read_sequences(tokens_path(corpus, domain, part), documents_path(corpus, domain, part));
  if (!sequences) return pass(sequences);
  if (document >= sequences->size())
    return fail(ErrorKind::usage, fmt::format("{} {} has {} documents, counted from 0; there is no document {}", domain,
                                              name_of(part), sequences->size(), document));
  const auto model = read_file(corpus + "/tokenizer.model");
  if (!model) return pass(model);
  const auto tokenizer = Tokenizer::load(*model);
  if (!tokenizer) return pass(tokenizer);
  auto tokens = sequences->sequence(document);
  for (const auto token : tokens) {
    if (token >= tokenizer->vocabulary()) return fail(ErrorKind::failed, "a token of this corpus is none of its tokenizer's");
  }
  if (!tokens.empty() && tokens.back() == tokenizer->end_of_document()) tokens.pop_back();
  return tokenizer->decode(tokens);
}

}  // namespace moiety::data
