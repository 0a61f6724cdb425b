#include "kernel/host/run/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/base/text.h"
#include "registry/report.h"

namespace moiety::host {

std::string counted(std::size_t n, const std::string& what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

void add_round(RunSummary round, RunSummary& all) {
  const auto append = [](auto& list, auto& more) { list.insert(list.end(), more.begin(), more.end()); };
  append(round.failed, all.failed);
  append(round.diverged, all.diverged);
  append(round.interrupted, all.interrupted);
  append(all.losses, round.losses);
  round.losses = std::move(all.losses);
  round.ran += all.ran;
  round.reused += all.reused;
  all = std::move(round);
}

void count_waiting(const Plan& plan, RunSummary& summary) {
  for (const auto& waiting : plan.waiting) {
    const auto n = waiting.seeds.size();
    summary.total += n;
    if (waiting.problem.empty() && summary.interrupted.empty()) summary.skipped += n;
    if (waiting.problem.empty()) continue;
    std::vector<std::string> seeds;
    for (const int seed : waiting.seeds) seeds.push_back(std::to_string(seed));
    summary.unformed.push_back(fmt::format("{} (arm {}, seed{} {}): {}", instance_text(waiting.name, waiting.labels), waiting.arm,
                                           n == 1 ? "" : "s", join(seeds, ", "), waiting.problem));
  }
}

bool complete(const RunSummary& summary) {
  return summary.failed.empty() && summary.unformed.empty() &&
         summary.done + summary.skipped + summary.diverged.size() == summary.total;
}

Verdicts sort_verdicts(const std::vector<registry::VerdictRow>& rows) {
  Verdicts sorted;
  for (const auto& row : rows) {
    if (!row.statement.empty() || row.verdict == "explored") continue;
    auto& list = row.verdict == "supported" ? sorted.supported : row.verdict == "refuted" ? sorted.refuted : sorted.undecided;
    list.push_back(row.claim_id);
  }
  return sorted;
}

namespace {

/// Runs of the plan that have a stage of `lost` on their path: "clustered seed 3".
std::vector<std::string> runs_of(const Plan& plan, const std::vector<LostStage>& lost, bool unformed = false) {
  std::vector<std::string> names;
  for (const auto& run : plan.runs) {
    const bool waits = unformed && std::any_of(plan.waiting.begin(), plan.waiting.end(), [&](const WaitingStage& one) {
                         return !one.problem.empty() && one.arm == run.arm &&
                                std::find(one.seeds.begin(), one.seeds.end(), run.seed) != one.seeds.end();
                       });
    const bool hit = waits || std::any_of(run.stages.begin(), run.stages.end(), [&](const auto& entry) {
                       return std::any_of(lost.begin(), lost.end(), [&](const auto& one) { return one.stage->id == entry.id; });
                     });
    if (hit) names.push_back(printable(run.arm) + " seed " + std::to_string(run.seed));
  }
  return names;
}

std::string last_line(const Plan& plan, const RunSummary& summary, const Verdicts& verdicts) {
  std::vector<std::string> parts;
  const auto failed = runs_of(plan, summary.failed, true);
  const auto diverged = runs_of(plan, summary.diverged);
  const auto interrupted = runs_of(plan, summary.interrupted);
  const auto done = std::count_if(plan.runs.begin(), plan.runs.end(), [&](const auto& run) {
    return !run.waits && std::all_of(run.stages.begin(), run.stages.end(),
                                     [&](const auto& entry) { return summary.not_done.count(entry.id) == 0; });
  });
  parts.push_back(fmt::format("{} of {} runs done", done, plan.runs.size()));
  if (!failed.empty()) parts.push_back("failed: " + join(failed, ", "));
  if (!interrupted.empty()) parts.push_back("interrupted, resumable: " + join(interrupted, ", "));
  if (!diverged.empty()) parts.push_back("diverged: " + join(diverged, ", "));
  const auto claims = verdicts.supported.size() + verdicts.refuted.size() + verdicts.undecided.size();
  if (claims > 0) {
    parts.push_back(fmt::format("{} of {} claims supported", verdicts.supported.size(), claims));
    if (!verdicts.refuted.empty()) parts.push_back("refuted: " + join(verdicts.refuted, ", "));
    if (!verdicts.undecided.empty()) parts.push_back("undecided: " + join(verdicts.undecided, ", "));
  }
  return join(parts, "; ");
}

}  // namespace

std::string choices_text(const std::vector<registry::ChoiceRow>& choices) {
  std::vector<std::pair<std::string, std::vector<std::pair<std::string, std::vector<std::string>>>>> by_choice;
  const auto entry = [](auto& list, const std::string& key) -> auto& {
    const auto found = std::find_if(list.begin(), list.end(), [&](const auto& one) { return one.first == key; });
    if (found != list.end()) return found->second;
    list.push_back({key, {}});
    return list.back().second;
  };
  for (const auto& one : choices) {
    auto& labels = entry(by_choice, one.name + ", by " + one.rule);
    entry(labels, one.label.empty() ? "nothing (" + one.reason + ")" : one.label).push_back(instance_text(one.arm, one.labels));
  }
  std::string text;
  for (const auto& [choice, labels] : by_choice) {
    std::vector<std::string> parts;
    for (const auto& [label, arms] : labels) parts.push_back(label + " in " + join(arms, ", "));
    text += printable(choice + ": " + join(parts, "; ")) + "\n";
  }
  return text;
}

std::string report_text(const RunRequest& request, const Recorder& recorder, registry::Registry& registry, const Plan& plan,
                        const RunSummary& summary, const Verdicts& verdicts, const std::string& choices, double seconds) {
  std::string text = "\n";
  for (const auto& line : summary.losses) text += line + "\n";
  if (!summary.losses.empty()) text += "\n";
  registry::CompareOptions options;
  options.study = recorder.study();
  if (const auto table = registry::compare_text(registry, options, registry::Format::table))
    text += *table + "\n";
  else
    text += "no table: " + table.error().message + "\n\n";
  if (!choices.empty()) text += "chosen on validation data:\n" + choices + "\n";
  if (!verdicts.supported.empty() || !verdicts.refuted.empty() || !verdicts.undecided.empty()) {
    if (const auto claims = registry::claims_text(registry, recorder.study(), registry::Format::table))
      text += *claims + "\n";
    else
      text += "no claims: " + claims.error().message + "\n\n";
  }
  for (const auto* list : {&summary.failed, &summary.diverged, &summary.interrupted}) {
    for (const auto& lost : *list)
      text += printable(name(lost.end.state) + std::string(": ") + instance_text(lost.stage->name, lost.stage->labels) + " (" +
                        whose(plan, *lost.stage) + "): " + lost.end.error) +
              "\n" + (lost.log.empty() ? "" : "  log: " + lost.log + "\n");
  }
  for (const auto& line : summary.unformed) text += printable("failed: " + line) + "\n";
  text += fmt::format("{} in {}: {} run, {} found in the store{}\n", counted(summary.total, "stage"), duration(seconds),
                      summary.ran, summary.reused, summary.skipped == 0 ? "" : fmt::format(", {} skipped", summary.skipped));
  text += "results: " + request.registry + "   store: " + request.recipe.store + "\n";
  text += "next: moiety compare   moiety claims   moiety runs   moiety show RUN   moiety sql \"SELECT * FROM v_final\"\n";
  return text + last_line(plan, summary, verdicts) + "\n";
}

}  // namespace moiety::host
