// The text that tells a worker what to do (interfaces: JOB.json).
#ifndef MOIETY_KERNEL_HOST_RUN_JOB_H_
#define MOIETY_KERNEL_HOST_RUN_JOB_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "kernel/base/result.h"
#include "kernel/host/plan/plan.h"
#include "kernel/host/run/data_client.h"
#include "kernel/host/run/store.h"

namespace moiety::host {

struct JobContext {
  const Plan& plan;
  const Catalog& catalog;
  const Store& store;
  const PreparedFolders& data;
  std::string registry;
  double checkpoint_seconds = 30;
};

/// For `moiety-worker --run`. The components of the models it reads are taken from the inputs' manifests. Error (`failed`): an
/// input needs a component that no plugin provides any more.
Result<nlohmann::json> make_job(const JobContext& context, const PlannedStage& stage, std::int64_t attempt);

/// For `moiety-worker --check`: inputs may not exist yet, so the components of all ancestors are those of the plan. Corpus and
/// task are null when they have not been prepared.
nlohmann::json make_check_job(const JobContext& context, const PlannedStage& stage);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RUN_JOB_H_
