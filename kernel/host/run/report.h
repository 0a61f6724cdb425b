// What a run came to, in words: tables, verdicts, what failed, and what to do next.
#ifndef MOIETY_KERNEL_HOST_RUN_REPORT_H_
#define MOIETY_KERNEL_HOST_RUN_REPORT_H_

#include <string>
#include <vector>

#include "kernel/host/plan/plan.h"
#include "kernel/host/run/recorder.h"
#include "kernel/host/run/run.h"
#include "kernel/host/run/supervisor.h"
#include "registry/registry.h"

namespace moiety::host {

/// "1 stage", "2 stages".
std::string counted(std::size_t n, const std::string& what);

/// The stages of a run become known in rounds; what is said of it is about all.
void add_round(RunSummary round, RunSummary& all);
/// What still waits when nothing runs any more: for a stage that failed, or for a value that does not fit.
void count_waiting(const Plan& plan, RunSummary& summary);
/// Every run has a result; a diverged one is a result too.
bool complete(const RunSummary& summary);

struct Verdicts {
  std::vector<std::string> supported, refuted, undecided;
};
Verdicts sort_verdicts(const std::vector<registry::VerdictRow>& rows);

/// "learning_rate, by highest tuned.valid_accuracy: 0.001 in dense, clustered; 0.0003 in learned", a line each; or nothing.
std::string choices_text(const std::vector<registry::ChoiceRow>& choices);

/// `choices`: of choices_text.
std::string report_text(const RunRequest& request, const Recorder& recorder, registry::Registry& registry, const Plan& plan,
                        const RunSummary& summary, const Verdicts& verdicts, const std::string& choices, double seconds);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RUN_REPORT_H_
