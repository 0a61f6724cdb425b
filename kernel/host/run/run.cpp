#include "kernel/host/run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <set>

#include "kernel/base/files.h"
#include "kernel/base/text.h"
#include "kernel/host/claims/chosen.h"
#include "kernel/host/claims/equal.h"
#include "kernel/host/claims/judge.h"
#include "kernel/host/claims/known_counts.h"
#include "kernel/host/discovery/locate.h"
#include "kernel/host/plan/sizes.h"
#include "kernel/host/run/dry_pass.h"
#include "kernel/host/run/interrupts.h"
#include "kernel/host/run/print.h"
#include "kernel/host/run/provenance.h"
#include "kernel/host/run/report.h"
#include "kernel/host/run/supervisor.h"

namespace moiety::host {
namespace {

int stopped(const RunRequest& request, int signal) {
  say("stopped by " + signal_name(signal) + "; nothing is lost. To go on: " + request.again);
  return 128 + signal;
}

/// Stages of the plan that are not whole in the store.
std::vector<const PlannedStage*> new_stages(const Plan& plan, const Store& store) {
  std::vector<const PlannedStage*> found;
  for (const auto& stage : plan.stages) {
    if (store.look_up(stage).state != StoredStage::State::whole) found.push_back(&stage);
  }
  return found;
}

/// New ones of a plan that grew: stages that the earlier one did not have.
std::vector<const PlannedStage*> unseen_stages(const Plan& plan, const Store& store,
                                               const std::map<std::string, StageState>& seen) {
  auto found = new_stages(plan, store);
  found.erase(std::remove_if(found.begin(), found.end(), [&](const auto* stage) { return seen.count(stage->id) != 0; }),
              found.end());
  return found;
}

/// "12 stages", "12 stages and 3 that wait for results".
std::string stages_text(const Plan& plan) {
  std::string text = counted(plan.stages.size(), "stage");
  if (!plan.waiting.empty())
    text += fmt::format(" and {} that wait{} for results", plan.waiting.size(), plan.waiting.size() == 1 ? "s" : "");
  return text;
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

struct Judgement {
  std::vector<registry::VerdictRow> verdicts;
  std::string choices;  ///< for people
};

/// Chooses among trials, judges the claims and writes both. `measured` has the counts; the rest is asked of the registry.
Result<Judgement> judge_claims(const Session& session, const Plan& plan, Recorder& recorder, registry::Registry& registry,
                               Measured measured) {
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
  const auto choices = choose(plan, measured);
  auto verdicts = judge(session.recipe.claims, choices.reported, measured);
  if (!status) return pass(status);
  if (auto written = registry.write_choices(recorder.study(), choices.made, choices.trials); !written) return pass(written);
  if (auto written = registry.write_verdicts(recorder.study(), verdicts); !written) return pass(written);
  return Judgement{std::move(verdicts), choices_text(choices.made)};
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
  const Store store(request.recipe.store);
  const auto prepared = hashes_of(**session, *folders);
  PlanFacts facts = facts_of(store);
  if (auto status = solve_totals(**session, *folders, store, request.registry, facts); !status) return complain(status.error());
  if (Interrupts::pending() != 0) return stopped(request, Interrupts::pending());
  if (facts.has_unsolvable()) {
    say(unsolvable_text(**session, facts));
    return static_cast<int>(ErrorKind::usage);
  }
  std::deque<Plan> plans;  // stages that failed while less was known are of an earlier one
  plans.push_back(build_plan(recipe, (*session)->catalog(), prepared, facts));

  auto fresh = new_stages(plans.back(), store);
  auto checked = dry_pass({plans.back(), (*session)->catalog(), store, *folders, request.registry}, (*session)->worker,
                          needs_counts(recipe.claims) ? all_stages(plans.back()) : fresh);
  if (!checked) return complain(checked.error());
  if (checked->interrupted != 0) return stopped(request, checked->interrupted);
  if (!checked->problems.empty()) {
    say(problems_text(**session, checked->problems));
    return static_cast<int>(ErrorKind::usage);
  }
  DryPass costs = *checked;  // of all rounds
  const auto equal_unknown = require_equal(recipe.claims, plans.back(), planned_counts(costs, store));
  if (!equal_unknown) return complain(equal_unknown.error());

  auto registry = registry::Registry::open(request.registry, registry::OpenMode::create);
  if (!registry) return complain(registry.error());
  for (const auto& notice : registry->notices()) say(notice);
  if (auto status = make_folders(store.folder() + "/objects"); !status) return complain(status.error());
  Recorder recorder(*registry, plans.back(), (*session)->catalog(), store);
  if (auto status = recorder.begin(claim_rows(recipe), provenance_of(".")); !status) return complain(status.error());

  SupervisorOptions options;
  options.worker = (*session)->worker;
  options.cores = available_cores();
  options.jobs = request.jobs;
  options.max_failures = request.max_failures;
  options.limits = {recipe.limits.call_seconds, recipe.limits.memory};
  RunSummary summary;
  {
    Display display(stderr, Display::mode_for(stderr, request.recipe.quiet));
    const auto& first = plans.back();
    display.note(fmt::format("{}: {}, {}, {} ({} new)", printable(recipe.name), counted(first.arms.size(), "arm"),
                             counted(first.runs.size(), "run"), stages_text(first), fresh.size()));
    std::vector<std::string> told;
    const auto tell_sizes = [&] {
      for (const auto& line : sizes_text(recipe, facts)) {
        if (std::find(told.begin(), told.end(), line) == told.end()) display.note(printable(line));
        told.push_back(line);
      }
    };
    tell_sizes();
    for (;;) {
      const auto& plan = plans.back();
      const JobContext context{plan, (*session)->catalog(), store, *folders, request.registry};
      for (const auto& [id, cost] : checked->costs) options.flops[id] = cost.flops;
      options.unknown = plan.waiting.size();
      add_round(Supervisor(context, recorder, display, options).run(), summary);
      if (plan.waiting.empty() || summary.signal != 0 || summary.environment || summary.gave_up) break;
      // Results that stages waited for are there: more of the plan is known.
      if (auto status = solve_totals(**session, *folders, store, request.registry, facts); !status) {
        summary.environment = status.error();
        break;
      }
      tell_sizes();
      plans.push_back(build_plan(recipe, (*session)->catalog(), prepared, facts));
      if (plans.back().stages.size() == plan.stages.size()) break;
      options.before = summary.states;
      // A state of its training that was not known to be needed is missing: it is run anew.
      for (const auto& stage : plans.back().stages) {
        if (store.look_up(stage).state == StoredStage::State::lacking) options.before.erase(stage.id);
      }
      fresh = unseen_stages(plans.back(), store, summary.states);
      const JobContext grown{plans.back(), (*session)->catalog(), store, *folders, request.registry};
      checked = dry_pass(grown, (*session)->worker, fresh);
      const auto extended = checked ? recorder.extend(plans.back()) : Status(pass(checked));
      if (!extended) summary.environment = extended.error();
      if (checked && checked->interrupted != 0) summary.signal = checked->interrupted;
      if (checked) costs.costs.insert(checked->costs.begin(), checked->costs.end());
      if (summary.environment || summary.signal != 0) break;
      options.refused.insert(checked->refused.begin(), checked->refused.end());
    }
  }
  const Plan& plan = plans.back();
  count_waiting(plan, summary);

  const bool early = summary.signal != 0 || summary.environment || summary.gave_up;
  const auto ended = recorder.end(complete(summary)                                      ? "done"
                                  : !summary.failed.empty() || !summary.unformed.empty() ? "failed"
                                                                                         : "interrupted");
  if (summary.environment) {
    say("the run stopped, resumable: " + counted(summary.done, "stage") + " of " + std::to_string(summary.total) + " are done");
    return complain(*summary.environment);
  }
  if (summary.signal != 0) {
    say(fmt::format("{} of {} stages are done and stay so", summary.done, summary.total));
    return stopped(request, summary.signal);
  }
  if (!ended) return complain(ended.error());
  Verdicts verdicts;
  std::string choices;
  if (!early) {
    Measured measured;
    measured.counts = recorded_counts(costs, store);
    measured.equal_unknown = *equal_unknown;
    const auto judged = judge_claims(**session, plan, recorder, *registry, std::move(measured));
    if (!judged) return complain(judged.error());
    verdicts = sort_verdicts(judged->verdicts);
    choices = judged->choices;
  }
  const auto text = report_text(request, recorder, *registry, plan, summary, verdicts, choices, now_seconds() - begin);
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  if (early) say("stopped by --max-failures; to go on: " + request.again);
  return verdict_code(request, summary, verdicts);
}

}  // namespace moiety::host
