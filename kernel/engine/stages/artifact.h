// The folder that a stage leaves: its files and the manifest that names them.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_ARTIFACT_H_
#define MOIETY_KERNEL_ENGINE_STAGES_ARTIFACT_H_

#include <string>

#include "kernel/engine/stages/stage.h"

namespace moiety::engine {

/// Writes all files of `outcome`, with those of its `model` (null: none), and the manifest into `folder`, which must be new.
/// `more` is merged into the manifest.
Status write_artifact(const std::string& folder, const Job& job, const StageOutcome& outcome, Gpt* model,
                      const nlohmann::json& more = nlohmann::json::object());

/// The folder of a snapshot below an artifact or a work folder: "snapshots/10pct", "snapshots/400k-tokens".
std::string snapshot_folder(const std::string& point);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_ARTIFACT_H_
