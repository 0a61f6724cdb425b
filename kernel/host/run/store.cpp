#include "kernel/host/run/store.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "kernel/base/files.h"
#include "kernel/base/hash.h"
#include "kernel/base/text.h"
#include "kernel/host/json_fields.h"

namespace moiety::host {
namespace fs = std::filesystem;
using nlohmann::json;

StoredStage Store::look_up(const std::string& id) const {
  StoredStage found;
  const auto folder = artifact(id);
  std::error_code error;
  if (!fs::exists(folder, error)) return found;
  const auto damaged = [&found](std::string why) {
    found.state = StoredStage::State::damaged;
    found.problem = std::move(why);
    return found;
  };
  const auto text = read_file(folder + "/manifest.json");
  if (!text) return damaged(text.error().message);
  found.manifest = json::parse(*text, nullptr, false);
  if (!found.manifest.is_object()) return damaged("manifest.json is not JSON");
  if (member_at(found.manifest, "stage") != id) return damaged("manifest.json is of another stage");
  const auto files = found.manifest.find("files");
  if (files != found.manifest.end() && files->is_object()) {
    for (const auto& [name, facts] : files->items()) {
      // Names come from a file: they must not lead out of the artifact.
      const auto steps = split(name, '/');
      if (std::any_of(steps.begin(), steps.end(), [](const auto& step) { return step.empty() || step == ".."; }))
        return damaged("manifest.json lists a file outside: " + name);
      const auto size = fs::file_size(folder + "/" + name, error);
      if (error) return damaged(name + " is missing");
      if (facts.is_object() && facts.contains("bytes") && facts["bytes"] != size)
        return damaged(name + " has " + std::to_string(size) + " bytes instead of " + facts["bytes"].dump());
      // The file that the registry is filled from. A model's files are checked by the stage that reads them.
      if (name != "series.jsonl") continue;
      const auto hash = sha256_of_file(folder + "/" + name);
      if (!hash || *hash != text_at(facts, "sha256")) return damaged(name + " is not what was written");
    }
  }
  if (fs::exists(folder + "/series.jsonl", error) && !member_at(found.manifest, "files").contains("series.jsonl"))
    return damaged("series.jsonl is not in the manifest");
  found.state = StoredStage::State::whole;
  return found;
}

StoredStage Store::look_up(const PlannedStage& stage) const {
  auto found = look_up(stage.id);
  if (found.state != StoredStage::State::whole) return found;
  std::error_code error;
  std::vector<std::string> missing;
  for (const auto& point : stage.snapshots) {
    if (!fs::exists(snapshot(stage.id, point) + "/manifest.json", error)) missing.push_back("the state at " + point);
  }
  // Whether a stage that only changes a model can hand it on is up to its components: what counts is that it was asked to.
  if (stage.keep_optimizer && member_at(found.manifest, "keeps_optimizer") != true) missing.emplace_back("the optimizer's state");
  if (missing.empty()) return found;
  found.state = StoredStage::State::lacking;
  found.problem = "it lacks " + join(missing, ", ");
  return found;
}

nlohmann::json Store::manifest(const std::string& id, const std::string& point) const {
  auto stored = look_up(id);
  if (stored.state != StoredStage::State::whole) return nullptr;
  if (point.empty()) return std::move(stored.manifest);
  const auto text = read_file(snapshot(id, point) + "/manifest.json");
  return text ? json::parse(*text, nullptr, false) : json();
}

bool Store::has_checkpoint(const std::string& id) const {
  std::error_code error;
  return fs::exists(work(id) + "/checkpoint", error);
}

Result<std::string> Store::set_aside(const std::string& id) const {
  const auto to = artifact(id) + ".damaged-" + new_ulid();
  std::error_code error;
  fs::rename(artifact(id), to, error);
  if (error) return fail(ErrorKind::environment, "cannot move the damaged " + artifact(id) + " away: " + error.message());
  return to;
}

Status Store::prepare_work(const std::string& id) const { return make_folders(work(id)); }

Result<std::optional<Descriptor>> Store::lock(const std::string& id) const {
  const auto path = work(id) + "/lock";
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.valid()) return fail(ErrorKind::environment, "cannot write " + path + ": " + std::generic_category().message(errno));
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return std::optional<Descriptor>(std::move(file));
  if (errno == EWOULDBLOCK) return std::optional<Descriptor>();
  return fail(ErrorKind::environment, "cannot lock " + path + ": " + std::generic_category().message(errno));
}

std::string Store::next_log(const std::string& id) const {
  std::error_code error;
  for (int n = 1;; ++n) {
    auto path = work(id) + "/attempt-" + std::to_string(n) + ".log";
    if (!fs::exists(path, error)) return path;
  }
}

}  // namespace moiety::host
