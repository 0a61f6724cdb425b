#include "kernel/host/run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <set>

#include "kernel/base/files.h"
#include "kernel/base/text.h"
#include "kernel/host/claims/equal.h"
#include "kernel/host/claims/judge.h"
#include "kernel/host/claims/known_counts.h"
#include "kernel/host/discovery/locate.h"
#include "kernel/host/run/dry_pass.h"
#include "kernel/host/run/interrupts.h"
#include "kernel/host/run/print.h"
#include "kernel/host/run/provenance.h"
#include "kernel/host/run/supervisor.h"
#include "registry/report.h"

namespace moiety::host {
namespace {

int stopped(const RunRequest& request, int signal) {
  say("stopped by " + signal_name(signal) + "; nothing is lost. To go on: " + request.again);
  return 128 + signal;
}

std::string count(std::size_t n, const std::string& what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

/// Stages of the plan that are not whole in the store.
std::vector<const PlannedStage*> new_stages(const Plan& plan, const Store& store) {
  std::vector<const PlannedStage*> found;
  for (const auto& stage : plan.stages) {
    if (store.look_up(stage.id).state != StoredStage::State::whole) found.push_back(&stage);
  }
  return found;
}

std::vector<const PlannedStage*> all_stages(const Plan& plan) {
  std::vector<const PlannedStage*> all;
  for (const auto& stage : plan.stages) all.push_back(&stage);
  return all;
}

std::vector<registry::ClaimRow> claim_rows(const Recipe& recipe) {
  std::vector<registry::ClaimRow> rows;
  for (const auto& claim : recipe.claims)
    rows.push_back({claim.id, claim.that, claim.source, claim.published, static_cast<int>(rows.size())});
  return rows;
}

Status check_required(const RunRequest& request, const Recipe& recipe) {
  std::vector<std::string> names;
  for (const auto& claim : recipe.claims) names.push_back(claim.id);
  for (const auto& wanted : request.require) {
    if (std::find(names.begin(), names.end(), wanted) != names.end()) continue;
    return fail(ErrorKind::usage, "--require: the recipe has no claim `" + printable(wanted) + "`; nothing was run",
                did_you_mean(wanted, names));
  }
  return {};
}

/// Judges the claims and writes the verdicts. `measured` has the counts; the rest is asked of the registry.
Result<std::vector<registry::VerdictRow>> judge_claims(const Session& session, const Plan& plan, Recorder& recorder,
                                                       registry::Registry& registry, Measured measured) {
  Status status;
  measured.state = [&](const std::string& id) {
    auto state = registry.stage_state(id);
    if (!state && status) status = pass(state);
    return state ? *state : "";
  };
  measured.final_rows = [&](const std::string& id) {
    auto rows = registry.final_metrics(id);
    if (!rows && status) status = pass(rows);
    return rows ? *rows : std::vector<registry::MetricRow>();
  };
  measured.run_id = [&](const std::string& arm, int seed) { return recorder.run_id(arm, seed); };
  auto verdicts = judge(session.recipe.claims, plan, measured);
  if (!status) return pass(status);
  if (auto written = registry.write_verdicts(recorder.study(), verdicts); !written) return pass(written);
  return verdicts;
}

struct Verdicts {
  std::vector<std::string> supported, refuted, undecided;
};

Verdicts sort_verdicts(const std::vector<registry::VerdictRow>& rows) {
  Verdicts sorted;
  for (const auto& row : rows) {
    if (!row.statement.empty() || row.verdict == "explored") continue;
    auto& list = row.verdict == "supported" ? sorted.supported : row.verdict == "refuted" ? sorted.refuted : sorted.undecided;
    list.push_back(row.claim_id);
  }
  return sorted;
}

/// Runs of the plan that have a stage of `lost` on their path: "clustered seed 3".
std::vector<std::string> runs_of(const Plan& plan, const std::vector<LostStage>& lost) {
  std::vector<std::string> names;
  for (const auto& run : plan.runs) {
    const bool hit = std::any_of(run.stages.begin(), run.stages.end(), [&](const auto& entry) {
      return std::any_of(lost.begin(), lost.end(), [&](const auto& one) { return one.stage->id == entry.id; });
    });
    if (hit) names.push_back(printable(run.arm) + " seed " + std::to_string(run.seed));
  }
  return names;
}

std::string last_line(const Plan& plan, const RunSummary& summary, const Verdicts& verdicts) {
  std::vector<std::string> parts;
  const auto failed = runs_of(plan, summary.failed);
  const auto diverged = runs_of(plan, summary.diverged);
  const auto interrupted = runs_of(plan, summary.interrupted);
  const auto done = std::count_if(plan.runs.begin(), plan.runs.end(), [&](const auto& run) {
    return std::all_of(run.stages.begin(), run.stages.end(),
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

std::string report(const RunRequest& request, const Recorder& recorder, registry::Registry& registry, const Plan& plan,
                   const RunSummary& summary, const Verdicts& verdicts, double seconds) {
  std::string text = "\n";
  for (const auto& line : summary.losses) text += line + "\n";
  if (!summary.losses.empty()) text += "\n";
  registry::CompareOptions options;
  options.study = recorder.study();
  if (const auto table = registry::compare_text(registry, options, registry::Format::table))
    text += *table + "\n";
  else
    text += "no table: " + table.error().message + "\n\n";
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
  text += fmt::format("{} in {}: {} run, {} found in the store{}\n", count(summary.total, "stage"), duration(seconds),
                      summary.ran, summary.reused, summary.skipped == 0 ? "" : fmt::format(", {} skipped", summary.skipped));
  text += "results: " + request.registry + "   store: " + request.recipe.store + "\n";
  text += "next: moiety compare   moiety claims   moiety runs   moiety show RUN   moiety sql \"SELECT * FROM v_final\"\n";
  return text + last_line(plan, summary, verdicts) + "\n";
}

/// Every run has a result; a diverged one is a result too.
bool complete(const RunSummary& summary) {
  return summary.failed.empty() && summary.done + summary.skipped + summary.diverged.size() == summary.total;
}

/// Exit code of a run that was neither stopped nor met a problem of the machine.
int verdict_code(const RunRequest& request, const RunSummary& summary, const Verdicts& verdicts) {
  int code = complete(summary) ? 0 : 1;
  if (summary.failed.empty() && !summary.interrupted.empty()) code = summary.interrupted.front().end.exit_code;
  for (const auto& wanted : request.require) {
    if (std::find(verdicts.supported.begin(), verdicts.supported.end(), wanted) != verdicts.supported.end()) continue;
    say("the claim `" + wanted + "` (--require) is not supported");
    code = 1;
  }
  return code;
}

}  // namespace

int run_recipe(const RunRequest& request) {
  const double begin = now_seconds();
  Interrupts::install();
  auto session = open_session(request.recipe);
  if (!session) return Interrupts::pending() != 0 ? stopped(request, Interrupts::pending()) : complain(session.error());
  const auto& recipe = (*session)->recipe;
  for (const auto& note : (*session)->notes) say(note);
  if (auto status = check_required(request, recipe); !status) return complain(status.error());

  const auto folders = prepare_for(**session, false);
  if (!folders) return complain(folders.error());
  if (folders->interrupted != 0) return stopped(request, folders->interrupted);
  const Plan plan = build_plan(recipe, (*session)->catalog(), hashes_of(**session, *folders));
  const Store store(request.recipe.store);
  const JobContext context{plan, (*session)->catalog(), store, *folders, request.registry};

  const auto fresh = new_stages(plan, store);
  const auto checked = dry_pass(context, (*session)->worker, needs_counts(recipe.claims) ? all_stages(plan) : fresh);
  if (!checked) return complain(checked.error());
  if (checked->interrupted != 0) return stopped(request, checked->interrupted);
  if (!checked->problems.empty()) {
    say(problems_text(**session, checked->problems));
    return static_cast<int>(ErrorKind::usage);
  }
  const auto equal_unknown = require_equal(recipe.claims, plan, planned_counts(*checked, store));
  if (!equal_unknown) return complain(equal_unknown.error());

  auto registry = registry::Registry::open(request.registry, registry::OpenMode::create);
  if (!registry) return complain(registry.error());
  for (const auto& notice : registry->notices()) say(notice);
  if (auto status = make_folders(store.folder() + "/objects"); !status) return complain(status.error());
  Recorder recorder(*registry, plan, (*session)->catalog(), store);
  if (auto status = recorder.begin(claim_rows(recipe), provenance_of(".")); !status) return complain(status.error());

  SupervisorOptions options;
  options.worker = (*session)->worker;
  options.cores = available_cores();
  options.jobs = request.jobs;
  options.max_failures = request.max_failures;
  options.limits = {recipe.limits.call_seconds, recipe.limits.memory};
  for (const auto& [id, cost] : checked->costs) options.flops[id] = cost.flops;
  RunSummary summary;
  {
    Display display(stderr, Display::mode_for(stderr, request.recipe.quiet));
    display.note(fmt::format("{}: {}, {}, {} ({} new)", printable(recipe.name), count(plan.arms.size(), "arm"),
                             count(plan.runs.size(), "run"), count(plan.stages.size(), "stage"), fresh.size()));
    summary = Supervisor(context, recorder, display, options).run();
  }

  const bool early = summary.signal != 0 || summary.environment || summary.gave_up;
  const auto ended = recorder.end(complete(summary) ? "done" : !summary.failed.empty() ? "failed" : "interrupted");
  if (summary.environment) {
    say("the run stopped, resumable: " + count(summary.done, "stage") + " of " + std::to_string(summary.total) + " are done");
    return complain(*summary.environment);
  }
  if (summary.signal != 0) {
    say(fmt::format("{} of {} stages are done and stay so", summary.done, summary.total));
    return stopped(request, summary.signal);
  }
  if (!ended) return complain(ended.error());
  Verdicts verdicts;
  if (!early) {
    Measured measured;
    measured.counts = recorded_counts(*checked, store);
    measured.equal_unknown = *equal_unknown;
    const auto judged = judge_claims(**session, plan, recorder, *registry, std::move(measured));
    if (!judged) return complain(judged.error());
    verdicts = sort_verdicts(*judged);
  }
  const auto text = report(request, recorder, *registry, plan, summary, verdicts, now_seconds() - begin);
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  if (early) say("stopped by --max-failures; to go on: " + request.again);
  return verdict_code(request, summary, verdicts);
}

}  // namespace moiety::host
