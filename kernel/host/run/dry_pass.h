// The dry pass: one worker makes every component of the new stages and asks check, needs, count and cost, before anything runs.
#ifndef MOIETY_KERNEL_HOST_RUN_DRY_PASS_H_
#define MOIETY_KERNEL_HOST_RUN_DRY_PASS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/host/run/job.h"

namespace moiety::host {

struct StageProblem {
  const PlannedStage* stage = nullptr;
  std::string path;  ///< in the stage's text: "feed_forward.router.k"; may be empty
  std::string message;
};

struct StageCost {
  double tokens = 0, flops = 0, total_parameters = 0, active_parameters = 0, memory = 0;
  bool estimate = false;  ///< some number of experts is found when the stage runs: it is that of one expert until then
};

struct DryPass {
  std::vector<StageProblem> problems;          ///< each once, though many seeds have it
  std::map<std::string, std::string> refused;  ///< the same by stage identity, seeds included
  std::map<std::string, StageCost> costs;      ///< by stage identity, seeds included
  int interrupted = 0;
};

/// Asks about `stages` (identities of the plan, each before its readers). Stages that differ in nothing but seeds are asked about
/// once. Errors (`environment`): the worker cannot answer.
Result<DryPass> dry_pass(const JobContext& context, const std::string& worker, const std::vector<const PlannedStage*>& stages);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RUN_DRY_PASS_H_
