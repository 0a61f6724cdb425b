// `moiety plan`: what a run would do, before it does it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "kernel/base/files.h"
#include "kernel/base/text.h"
#include "kernel/host/claims/equal.h"
#include "kernel/host/claims/judge.h"
#include "kernel/host/claims/known_counts.h"
#include "kernel/host/command/command.h"
#include "kernel/host/discovery/locate.h"
#include "kernel/host/plan/sizes.h"
#include "kernel/host/run/display.h"
#include "kernel/host/run/dry_pass.h"
#include "kernel/host/run/session.h"
#include "registry/registry.h"
#include "registry/report.h"

namespace moiety::host {
namespace {

using nlohmann::json;

/// (arm, seed, stage with its labels) → identity of that stage in the newest study of this recipe's name. Best effort.
using Before = std::map<std::tuple<std::string, int, std::string>, std::string>;

Before stages_before(const std::string& registry_file, const std::string& recipe_name) {
  Before found;
  std::error_code error;
  if (!std::filesystem::exists(registry_file, error)) return found;
  auto registry = registry::Registry::open(registry_file, registry::OpenMode::read_only);
  if (!registry) return found;
  std::string name;
  for (const char c : recipe_name) name += c == '\'' ? std::string("''") : std::string(1, c);
  const auto text =
      registry::sql_text(*registry,
                         "SELECT run.arm AS arm, run.seed AS seed, run_stage.title AS name, stage.id AS stage FROM run "
                         "JOIN run_stage ON run_stage.run = run.number JOIN stage ON stage.key = run_stage.stage "
                         "WHERE run.study = (SELECT max(key) FROM study WHERE name = '" +
                             name + "')",
                         registry::Format::json);
  const json rows = text ? json::parse(*text, nullptr, false) : json();
  if (!rows.is_array()) return found;
  for (const auto& row : rows)
    found[{row.at("arm").get<std::string>(), row.at("seed").get<int>(), row.at("name").get<std::string>()}] =
        row.at("stage").get<std::string>();
  return found;
}

/// Stages of one name and labels in the same arms: the seeds of a row of the table.
struct Row {
  const PlannedStage* first = nullptr;
  std::size_t done = 0, fresh = 0, stale = 0, resumable = 0;
  std::vector<std::string> changes;
  StageCost cost;
};

json read_json(const std::string& path) {
  const auto text = read_file(path);
  return text ? json::parse(*text, nullptr, false) : json();
}

/// The stage that stood in the same place before, when its result is in the store: then the new one is stale, not just new.
std::string older_stage(const Plan& plan, const PlannedStage& stage, const Before& before, const Store& store) {
  for (const auto& run : plan.runs) {
    for (const auto& one : run.stages) {
      if (one.id != stage.id) continue;
      const auto found = before.find({run.arm, run.seed, instance_text(one.name, one.labels)});
      if (found != before.end() && found->second != one.id && store.look_up(found->second).state == StoredStage::State::whole)
        return found->second;
    }
  }
  return "";
}

std::vector<Row> rows_of(const Plan& plan, const Store& store, const Before& before,
                         const std::map<std::string, StageCost>& costs) {
  std::vector<Row> rows;
  for (const auto& stage : plan.stages) {
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& one) {
      return one.first->name == stage.name && one.first->labels == stage.labels && one.first->arms == stage.arms;
    });
    if (row == rows.end()) {
      Row fresh;
      fresh.first = &stage;
      if (const auto cost = costs.find(stage.id); cost != costs.end()) fresh.cost = cost->second;
      row = rows.insert(rows.end(), fresh);
    }
    if (store.look_up(stage).state == StoredStage::State::whole) {
      ++row->done;
    } else if (store.has_checkpoint(stage.id)) {
      ++row->resumable;
    } else if (const auto older = older_stage(plan, stage, before, store); !older.empty() && !plan.provisional) {
      ++row->stale;
      if (row->changes.empty()) row->changes = explain_difference(read_json(store.identity(older)), stage.identity_text);
    } else {
      ++row->fresh;
    }
  }
  return rows;
}

std::string state_text(const Row& row) {
  std::vector<std::string> parts;
  const auto add = [&](std::size_t n, const char* state) {
    if (n > 0) parts.push_back(fmt::format("{} {}", n, state));
  };
  add(row.done, "done");
  add(row.resumable, "resumable");
  add(row.stale, "stale");
  add(row.fresh, "new");
  return join(parts, ", ");
}

std::string amount(double value, bool at_least = false) { return value > 0 ? (at_least ? "≥" : "") + short_number(value) : "-"; }

std::vector<std::string> prefixed(const std::string& prefix, const std::vector<std::string>& lines) {
  std::vector<std::string> result;
  for (const auto& line : lines) result.push_back(prefix + line);
  return result;
}

std::string arms_text(const Plan& plan, const std::vector<std::string>& arms) {
  return arms.size() == plan.arms.size() ? (plan.arms.size() == 1 ? arms[0] : "all") : join(arms, ", ");
}

/// Stages whose identity waits for a result: one row for all arms in which they wait for the same.
void add_waiting(const Plan& plan, std::vector<std::vector<std::string>>& table, std::vector<std::vector<std::string>>& notes) {
  std::vector<const WaitingStage*> firsts;
  for (const auto& one : plan.waiting) {
    const auto same = [&](const WaitingStage& other) {
      return other.name == one.name && other.labels == one.labels && other.after == one.after && other.problem == one.problem;
    };
    if (std::any_of(firsts.begin(), firsts.end(), [&](const auto* first) { return same(*first); })) continue;
    firsts.push_back(&one);
    std::vector<std::string> arms;
    for (const auto& other : plan.waiting) {
      if (same(other)) arms.push_back(other.arm);
    }
    const std::string state = one.after.empty() ? "cannot be run" : "after " + join(one.after, ", ");
    table.push_back({instance_text(one.name, one.labels), one.verb->name, arms_text(plan, arms), state, "-", "-", "-", "-", "-"});
    notes.emplace_back();
    for (const auto& [path, after] : one.values) notes.back().push_back(path + ": after " + after);
    if (!one.problem.empty()) notes.back().push_back(one.problem);
  }
}

void print_table(const Plan& plan, const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> table = {
      {"stage", "does", "arms", "state", "tokens", "FLOPs", "parameters", "active", "memory"}};
  for (const auto& row : rows) {
    const auto& s = *row.first;
    const std::string arms = arms_text(plan, s.arms);
    table.push_back({instance_text(s.name, s.labels) + (s.pinned ? " (pinned)" : ""), s.verb->name, arms, state_text(row),
                     amount(row.cost.tokens), amount(row.cost.flops, row.cost.estimate),
                     amount(row.cost.total_parameters, row.cost.estimate), amount(row.cost.active_parameters, row.cost.estimate),
                     row.cost.memory > 0 ? fmt::format("{:.0f} MiB", row.cost.memory / (1 << 20)) : "-"});
  }
  std::vector<std::vector<std::string>> notes;
  for (const auto& row : rows) notes.push_back(prefixed("stale: ", row.changes));
  add_waiting(plan, table, notes);
  std::vector<std::size_t> widths(table[0].size());
  for (const auto& line : table) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width(printable(line[i])));
  }
  for (std::size_t n = 0; n < table.size(); ++n) {
    std::string line;
    for (std::size_t i = 0; i < table[n].size(); ++i) {
      const auto cell = printable(table[n][i]);
      const std::string space(widths[i] - width(cell), ' ');
      line += (i == 0 ? "" : "  ") + (i >= 4 ? space + cell : cell + space);
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    put(line + "\n");
    if (n == 0) continue;
    for (const auto& note : notes[n - 1]) put("    " + printable(note) + "\n");
  }
}

void print_totals(const Plan& plan, const Store& store, const std::map<std::string, StageCost>& costs) {
  std::size_t fresh = 0;
  double tokens = 0, flops = 0;
  for (const auto& stage : plan.stages) {
    if (store.look_up(stage).state == StoredStage::State::whole) continue;
    ++fresh;
    const auto cost = costs.find(stage.id);
    if (cost == costs.end()) continue;
    tokens += cost->second.tokens;
    flops += cost->second.flops;
  }
  put(fmt::format("\n{} runs ({} arms, {} seeds), {} stages: {} to run", plan.runs.size(), plan.arms.size(), plan.seeds,
                  plan.stages.size(), fresh));
  if (flops > 0) put(fmt::format(", {} tokens, {} FLOPs", short_number(tokens), short_number(flops)));
  if (!plan.waiting.empty()) put(fmt::format("; {} wait for results of others", plan.waiting.size()));
  put("\n");
}

/// What each arm selects among its trials.
void print_choices(const Plan& plan) {
  if (!plan.has_choices()) return;
  put("choices:\n");
  for (const auto& axis : plan.axes.all()) {
    if (axis.choice)
      put("  " + printable(fmt::format("{} among {}, by {}", axis.name, join(axis.labels(), ", "), axis.choice->text)) + "\n");
  }
}

/// Claims that counts alone decide.
void print_counts(const std::vector<Claim>& claims, const Plan& plan, const CountsOf& counts) {
  for (const auto& row : judge_counts(claims, plan, counts)) {
    if (!row.statement.empty()) continue;
    put(printable(fmt::format("claim {}, decided by counts: {}{}", row.claim_id, row.verdict,
                              row.verdict == "undecided" ? " (" + row.reason + ")" : "")) +
        "\n");
  }
}

int plan_recipe(const Arguments& arguments) {
  auto session = open_session(recipe_request(arguments));
  if (!session) return complain(session.error());
  for (const auto& note : (*session)->notes) say(note);
  const auto folders = prepare_for(**session, true);
  if (!folders) return complain(folders.error());
  const Store store((*session)->request.store);
  const auto registry_file = registry_path(arguments.value("registry"));
  PlanFacts facts = facts_of(store);
  // Before the data is there, costs are not known.
  if (folders->missing.empty()) {
    if (auto status = solve_totals(**session, *folders, store, registry_file, facts); !status) return complain(status.error());
  }
  if (facts.has_unsolvable()) {
    say(unsolvable_text(**session, facts));
    return static_cast<int>(ErrorKind::usage);
  }
  const Plan plan = build_plan((*session)->recipe, (*session)->catalog(), hashes_of(**session, *folders), facts);
  const JobContext context{plan, (*session)->catalog(), store, *folders, registry_file};
  std::vector<const PlannedStage*> all;
  for (const auto& stage : plan.stages) all.push_back(&stage);
  const auto checked = dry_pass(context, (*session)->worker, all);
  if (checked && !checked->problems.empty()) {
    say(problems_text(**session, checked->problems));
    return static_cast<int>(ErrorKind::usage);
  }
  // Sizes are not known before the data is there.
  if (checked && !plan.provisional) {
    const auto equal = require_equal((*session)->recipe.claims, plan, planned_counts(*checked, store));
    if (!equal) return complain(equal.error());
  }
  const std::map<std::string, StageCost> costs = checked ? checked->costs : std::map<std::string, StageCost>();

  put(printable(plan.recipe_name) + (plan.about.empty() ? "" : ": " + printable(plan.about)) + "\n\narms:\n");
  for (const auto& arm : plan.arms)
    put("  " + printable(arm.name) + (arm.name == plan.baseline ? " (baseline)" : "") + "  " + printable(arm.patch_text) + "\n");
  print_choices(plan);
  if (!facts.sizes.empty()) put("sizes:\n");
  for (const auto& line : sizes_text((*session)->recipe, facts)) put("  " + printable(line) + "\n");
  put("\n");
  print_table(plan, rows_of(plan, store, stages_before(registry_file, plan.recipe_name), costs));
  print_totals(plan, store, costs);
  if (checked && !plan.provisional) print_counts((*session)->recipe.claims, plan, planned_counts(*checked, store));
  for (const auto& missing : folders->missing)
    put(printable(missing) +
        " is not prepared yet (moiety run prepares it): stages that read it count as new, and vocabulary and classes are not in "
        "their sizes and costs\n");
  if (!checked) {
    say("costs are not known:");
    return complain(checked.error());
  }
  return 0;
}

}  // namespace

std::vector<Subcommand> plan_commands() {
  return {{"plan", "RECIPE", "what a run would do: arms, stages, costs, and what is done already",
           "A stage is done (in the store), resumable (it has a checkpoint), stale (its place was filled before by another one,\n"
           "and what changed is told) or new. Nothing is prepared or run.",
           "moiety plan recipes/quickstart.toml", recipe_options(), 1, 1, plan_recipe}};
}

}  // namespace moiety::host
