#include "kernel/data/command/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>

#include "kernel/base/files.h"
#include "kernel/base/hash.h"
#include "kernel/base/text.h"
#include "kernel/data/command/lock.h"
#include "kernel/data/corpus/corpus.h"
#include "kernel/data/corpus/task.h"
#include "kernel/data/packages/interruption.h"

namespace moiety::data {
namespace fs = std::filesystem;
using nlohmann::json;
namespace {

/// Raised whenever extraction, cleaning or tokenizer options change what is written.
constexpr int kRevision = 1;

struct Wanted {
  CorpusDescription corpus;
  std::vector<TaskDescription> tasks;
  std::string corpus_folder;
};

std::string with_version(const std::string& name, int version) { return fmt::format("{}@{}", name, version); }

/// Folder names start with what is inside, for people; the hash tells apart what differs in any setting.
std::string folder_name(const std::string& name, int version, const json& identity) {
  return fmt::format("{}-{}-{}", name, version, sha256(identity.dump()).substr(0, 16));
}

std::string task_folder(const TaskDescription& task, const std::string& corpus_hash, const std::string& store) {
  const json identity = {{"revision", kRevision}, {"task", task.text}, {"corpus", corpus_hash}};
  return store + "/tasks/" + folder_name(task.name, task.version, identity);
}

Result<Wanted> resolve(const Request& request, const Places& places) {
  auto corpus = find_corpus(request.corpus, places.recipes);
  if (!corpus) return pass(corpus);
  std::vector<std::string> names;
  for (const auto& domain : corpus->domains) names.push_back(domain.name);
  auto without = request.without;
  std::sort(without.begin(), without.end());
  without.erase(std::unique(without.begin(), without.end()), without.end());
  for (const auto& name : without) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      return fail(ErrorKind::usage, fmt::format("corpus.without: {} has no domain `{}`", corpus->name, printable(name)),
                  "its domains are " + join(names, ", "));
  }
  if (without.size() == names.size()) return fail(ErrorKind::usage, "corpus.without leaves no domain");
  Wanted wanted;
  const json identity = {
      {"revision", kRevision}, {"corpus", corpus->text}, {"without", without}, {"vocabulary", request.vocabulary}};
  wanted.corpus_folder = places.store + "/corpora/" + folder_name(corpus->name, corpus->version, identity);
  wanted.corpus = std::move(*corpus);
  for (const auto& use : request.tasks) {
    auto task = find_task(use, places.recipes);
    if (!task) return pass(task);
    wanted.tasks.push_back(std::move(*task));
  }
  return wanted;
}

json summary(const json& about, const std::string& path) {
  return {{"name", about.at("name")}, {"version", about.at("version")}, {"path", path}, {"hash", about.at("hash")}};
}

/// What is in the store already: {"corpus","tasks"}, or {"missing"}.
json look(const Wanted& wanted, const Places& places) {
  json missing = json::array();
  json tasks = json::array();
  const json corpus = read_prepared(wanted.corpus_folder, "corpus.json");
  if (corpus.is_null()) missing.push_back("corpus " + with_version(wanted.corpus.name, wanted.corpus.version));
  for (const auto& task : wanted.tasks) {
    const std::string folder = corpus.is_null() ? "" : task_folder(task, corpus.at("hash"), places.store);
    const json about = folder.empty() ? json() : read_prepared(folder, "task.json");
    if (about.is_null()) {
      missing.push_back("task " + with_version(task.name, task.version));
    } else {
      tasks.push_back(summary(about, folder));
    }
  }
  if (!missing.empty()) return {{"missing", missing}};
  return {{"corpus", summary(corpus, wanted.corpus_folder)}, {"tasks", tasks}};
}

/// Moves what was made to where it is looked for; a damaged folder that lies there goes first.
Status publish(const GuardedFolder& made, const std::string& to) {
  std::error_code ignored;
  fs::remove_all(to, ignored);
  return publish_folder(made.path(), to);
}

std::vector<std::string> packages_of(const Wanted& wanted, const Request& request, bool with_corpus) {
  std::set<std::string> names;
  for (const auto& domain : wanted.corpus.domains) {
    const bool left_out = std::find(request.without.begin(), request.without.end(), domain.name) != request.without.end();
    if (!with_corpus || left_out) continue;
    for (const auto& source : domain.sources) names.insert(source.package);
  }
  for (const auto& task : wanted.tasks) names.insert(task.source.package);
  return {names.begin(), names.end()};
}

Status make_corpus(const Wanted& wanted, const Request& request, const std::map<std::string, Package>& packages,
                   Progress& progress) {
  const auto domains = build_domains(wanted.corpus, request.without, packages, progress);
  if (!domains) return pass(domains);
  progress.step(fmt::format("learning a tokenizer of {} pieces", request.vocabulary));
  const auto tokenizer = Tokenizer::train(training_texts(*domains), request.vocabulary);
  if (!tokenizer) return pass(tokenizer);
  const auto part = GuardedFolder::make(wanted.corpus_folder + ".part");
  if (!part) return pass(part);
  if (auto about = write_corpus(wanted.corpus, *domains, *tokenizer, part->path(), progress); !about) return pass(about);
  return publish(*part, wanted.corpus_folder);
}

Status make_task(const TaskDescription& task, const std::string& folder, const std::string& corpus_folder,
                 const std::string& corpus_hash, const Package& package, Progress& progress) {
  progress.step("task " + task.name);
  const auto model = read_file(corpus_folder + "/tokenizer.model");
  if (!model) return pass(model);
  const auto tokenizer = Tokenizer::load(*model);
  if (!tokenizer) return pass(tokenizer);
  const auto entries = extract_source(task.source, package);
  if (!entries) return pass(entries);
  const auto text = build_task(task, *entries);
  if (!text) return pass(text);
  const auto part = GuardedFolder::make(folder + ".part");
  if (!part) return pass(part);
  if (auto about = write_task(task, *text, *tokenizer, corpus_hash, package.version, part->path()); !about) return pass(about);
  return publish(*part, folder);
}

Status make_missing(const Wanted& wanted, const Request& request, const Places& places, Progress& progress) {
  const bool has_corpus = !read_prepared(wanted.corpus_folder, "corpus.json").is_null();
  const auto packages = obtain_packages(packages_of(wanted, request, !has_corpus), places.store, progress);
  if (!packages) return pass(packages);
  if (!has_corpus) {
    if (auto status = make_corpus(wanted, request, *packages, progress); !status) return status;
  }
  const json corpus = read_prepared(wanted.corpus_folder, "corpus.json");
  if (corpus.is_null()) return fail(ErrorKind::failed, "the corpus in " + wanted.corpus_folder + " is not as it was written");
  for (const auto& task : wanted.tasks) {
    const std::string folder = task_folder(task, corpus.at("hash"), places.store);
    if (!read_prepared(folder, "task.json").is_null()) continue;
    if (auto status =
            make_task(task, folder, wanted.corpus_folder, corpus.at("hash"), packages->at(task.source.package), progress);
        !status)
      return status;
  }
  return {};
}

}  // namespace

json read_prepared(const std::string& folder, const std::string& name) {
  const auto text = read_file(folder + "/" + name);
  if (!text) return nullptr;
  const json about = json::parse(*text, nullptr, false);
  const bool sound = about.is_object() && about.value("format", json()) == 1 && about.value("hash", json()).is_string() &&
                     about.value("files", json()).is_object();
  if (!sound) return nullptr;
  // What was damaged since is prepared anew: a training on other tokens than the hash says would be a wrong result.
  for (const auto& [file, facts] : about["files"].items()) {
    std::error_code error;
    const std::string path = folder + "/" + file;
    if (!facts.is_object() || fs::file_size(path, error) != facts.value("bytes", json()) || error) return nullptr;
    const auto hash = sha256_of_file(path);
    if (!hash || *hash != facts.value("sha256", "")) return nullptr;
  }
  return about;
}

Result<json> check_prepared(const Request& request, const Places& places) {
  const auto wanted = resolve(request, places);
  if (!wanted) return pass(wanted);
  return look(*wanted, places);
}

Result<json> prepare(const Request& request, const Places& places, Progress& progress) {
  const auto wanted = resolve(request, places);
  if (!wanted) return pass(wanted);
  if (auto found = look(*wanted, places); !found.contains("missing")) return found;
  for (const char* folder : {"/corpora", "/tasks", "/packages"}) {
    if (auto status = make_folders(places.store + folder); !status) return pass(status);
  }
  const auto lock = FileLock::take(places.store + "/prepare.lock",
                                   [&] { progress.note("another process is preparing data in this store; waiting for it"); });
  if (!lock) return pass(lock);
  if (auto found = look(*wanted, places); !found.contains("missing")) return found;
  if (auto status = make_missing(*wanted, request, places, progress); !status) return pass(status);
  progress.step("ready");
  return look(*wanted, places);
}

}  // namespace moiety::data
