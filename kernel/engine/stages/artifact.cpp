#include "kernel/engine/stages/artifact.h"

#include "kernel/base/files.h"
#include "kernel/base/hash.h"
#include "kernel/engine/model/model_file.h"

namespace moiety::engine {

Status write_artifact(const std::string& folder, const Job& job, const StageOutcome& outcome, Gpt* model,
                      const nlohmann::json& more) {
  if (auto status = make_folders(folder); !status) return status;
  std::map<std::string, std::string> files = outcome.files;
  nlohmann::json manifest = {{"format", 1},          {"stage", job.stage},         {"name", job.name},
                             {"verb", job.verb},     {"results", outcome.results}, {"corpus", job.corpus_hash},
                             {"task", job.task_hash}};
  if (model != nullptr) {
    files["model.safetensors"] = safetensors_bytes(tensors_of(*model));
    const NamedTensors state = state_of_sites(*model);
    if (!state.empty()) files["state.safetensors"] = safetensors_bytes(state);
    manifest["model"] = model->architecture().to_json();
    manifest["sites"] = describe_sites(*model);
  }
  if (!outcome.position.is_null()) manifest["position"] = outcome.position;
  if (!outcome.schedule.is_null()) manifest["schedule"] = outcome.schedule;
  const Cost& cost = outcome.cost;
  manifest["cost"] = {{"tokens", cost.tokens},
                      {"flops", cost.flops},
                      {"total_parameters", cost.total_parameters},
                      {"active_parameters", cost.active_parameters},
                      {"trainable_parameters", cost.trainable_parameters}};
  manifest.merge_patch(more);
  for (const auto& [name, content] : files) {
    if (auto status = write_file(folder + "/" + name, content); !status) return status;
    manifest["files"][name] = {{"sha256", sha256(content)}, {"bytes", content.size()}};
  }
  return write_file(folder + "/manifest.json", manifest.dump(1));
}

std::string snapshot_folder(const std::string& point) {
  std::string name;
  for (const char c : point) {
    if (c == '%')
      name += "pct";
    else
      name += c == ' ' ? '-' : c;
  }
  return "snapshots/" + name;
}

}  // namespace moiety::engine
