#include "kernel/host/plan/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "kernel/base/hash.h"

namespace moiety::host {

nlohmann::json identity_text(const PlannedStage& stage, const Catalog& catalog) {
  nlohmann::json text = {{"format", 1},
                         {"verb", stage.verb->name},
                         {"config", stage.config},
                         {"model", stage.model},
                         {"threads", stage.threads},
                         {"device", stage.device},
                         {"dtype", stage.dtype},
                         {"corpus", stage.corpus_hash},
                         {"task", stage.task_hash},
                         {"torch", {{"version", catalog.torch_version}, {"build_id", catalog.torch_build_id}}},
                         {"results_revision", catalog.results_revision},
                         {"seeds", nlohmann::json::object()},
                         {"inputs", nlohmann::json::object()},
                         {"components", nlohmann::json::object()}};
  for (const auto& purpose : stage.verb->seeds) {
    const auto found = stage.seeds.find(purpose);
    if (found != stage.seeds.end()) text["seeds"][purpose] = found->second;
  }
  for (const auto& input : stage.inputs) {
    text["inputs"][input.name].push_back(input.stage_id + (input.snapshot.empty() ? "" : "@" + input.snapshot));
  }
  // Absent where they do not matter, so that what was stored before is found.
  if (!stage.groups.empty()) text["groups"] = stage.groups;
  if (stage.fraction != 1) text["fraction"] = stage.fraction;
  for (const auto& used : stage.components) {
    text["components"][used.slot] = {{"use", used.component->kind + "/" + used.component->use()},
                                     {"build_id", used.component->build_id}};
  }
  return text;
}

std::string identity_of(const nlohmann::json& text) {
  return sha256(text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

namespace {

void flatten(const nlohmann::json& json, const std::string& path, std::map<std::string, nlohmann::json>& leaves) {
  if (!json.is_object() || json.empty()) {
    leaves[path] = json;
    return;
  }
  for (const auto& [key, item] : json.items()) flatten(item, path.empty() ? key : path + "." + key, leaves);
}

std::string shown(const std::map<std::string, nlohmann::json>& leaves, const std::string& path) {
  const auto found = leaves.find(path);
  if (found == leaves.end() || found->second.is_null()) return "nothing";
  if (found->second.is_string()) return found->second.get<std::string>();
  return found->second.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool starts(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

/// One difference in words; empty for one that another line tells.
std::string in_words(const std::string& path, const std::map<std::string, nlohmann::json>& before,
                     const std::map<std::string, nlohmann::json>& after) {
  const std::string change = shown(before, path) + " → " + shown(after, path);
  if (starts(path, "config.")) return path.substr(7) + ": " + change;
  if (starts(path, "model")) return path + ": " + change;
  if (starts(path, "seeds.")) return "seed (" + path.substr(6) + "): " + change;
  if (starts(path, "inputs.")) return "`" + path.substr(7) + "` reads another stage, or that stage changed";
  if (path == "corpus") return "the text or the tokenizer of the corpus changed";
  if (path == "fraction") return "fraction of the corpus: " + change;
  if (path == "task") return "the items of the task changed";
  if (path == "torch.version") return "LibTorch: " + change;
  if (path == "torch.build_id") return "LibTorch was rebuilt";
  if (path == "results_revision") return "the engine computes other results than before (revision " + change + ")";
  if (starts(path, "components.")) {
    const std::string slot = path.substr(11, path.rfind('.') - 11), use = "components." + slot + ".use";
    if (path == use) return slot + ": " + change;
    return shown(before, use) == shown(after, use) ? shown(after, use) + " was rebuilt (" + slot + ")" : "";
  }
  return path + ": " + change;
}

}  // namespace

std::vector<std::string> explain_difference(const nlohmann::json& before, const nlohmann::json& after) {
  std::map<std::string, nlohmann::json> left, right, all;
  flatten(before, "", left);
  flatten(after, "", right);
  all = left;
  all.insert(right.begin(), right.end());
  std::vector<std::string> lines;
  for (const auto& [path, value] : all) {
    const auto a = left.find(path), b = right.find(path);
    if (a != left.end() && b != right.end() && a->second == b->second) continue;
    // An object that is empty on one side only is told by its members.
    if (value.is_object() && value.empty() && (a == left.end() || b == right.end())) continue;
    std::string line = in_words(path, left, right);
    if (!line.empty() && std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace moiety::host
