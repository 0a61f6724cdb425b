// The store: finished stages by identity, work in progress, locks. Paths derive from identities only.
#ifndef MOIETY_KERNEL_HOST_RUN_STORE_H_
#define MOIETY_KERNEL_HOST_RUN_STORE_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "kernel/base/result.h"
#include "kernel/host/plan/plan.h"
#include "kernel/host/recipe/quantities.h"
#include "kernel/host/run/process.h"

namespace moiety::host {

/// What lies in the store under an identity.
struct StoredStage {
  enum class State { absent, whole, damaged, lacking };
  State state = State::absent;
  nlohmann::json manifest;  ///< when whole
  std::string problem;      ///< when damaged or lacking: whole, but without a snapshot or an optimizer state that is read of it
};

class Store {
 public:
  explicit Store(std::string folder) : folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }
  std::string artifact(const std::string& id) const { return folder_ + "/objects/" + id.substr(0, 2) + "/" + id; }
  /// The state of a training stage at a point of its training ("10%"), as an artifact of its own.
  std::string snapshot(const std::string& id, const std::string& point) const {
    return artifact(id) + "/snapshots/" + point_folder(point);
  }
  std::string work(const std::string& id) const { return folder_ + "/work/" + id; }
  /// The text that the identity is the hash of.
  std::string identity(const std::string& id) const { return work(id) + "/identity.json"; }

  /// Whole: the manifest reads, names this identity, and every file it lists has its size. (Content hashes are for `db check`.)
  StoredStage look_up(const std::string& id) const;
  /// The same for a stage of a plan: whole only with what the plan's other stages read of it beside its end.
  StoredStage look_up(const PlannedStage& stage) const;
  /// Of a whole artifact, at this point of its training when there is one; null otherwise.
  nlohmann::json manifest(const std::string& id, const std::string& point) const;
  bool has_checkpoint(const std::string& id) const;
  /// Moves a damaged artifact out of the way; the answer is where it went.
  Result<std::string> set_aside(const std::string& id) const;
  /// Makes STORE/work/<id>. An `environment` error when the store cannot be written.
  Status prepare_work(const std::string& id) const;
  /// The stage's lock, held until the descriptor and its copies in children are closed. Nothing: another process has it.
  Result<std::optional<Descriptor>> lock(const std::string& id) const;
  /// STORE/work/<id>/attempt-N.log with the first N that is free.
  std::string next_log(const std::string& id) const;

 private:
  std::string folder_;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RUN_STORE_H_
