// What must hold, or be said, before arms are compared: equal configurations, equal builds and machines, pinned models.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kernel/base/text.h"
#include "registry/comparison.h"

namespace moiety::registry {

namespace {

using Described = std::map<std::string, std::string>;  ///< "stage tuned: learning_rate" → value

/// Everything that config hashes are made of, in words.
Result<Described> describe(Database& database, std::int64_t run) {
  Described out;
  if (auto status = database.each(
          "SELECT run_stage.title, param.path, param.txt FROM run_stage JOIN param ON param.stage = run_stage.stage WHERE "
          "run_stage.run = ? "
          "AND param.path <> 'seed' AND param.path NOT LIKE 'seed.%' AND param.path NOT LIKE 'seed[%' AND param.path NOT LIKE "
          "'seeds%'",
          {run}, [&](const Query& row) { out[fmt::format("stage {}: {}", row.text(0), row.text(1))] = row.text(2); });
      !status) {
    return pass(status);
  }
  if (auto status = database.each("SELECT run_stage.title, stage.verb, stage.corpus_hash, stage.task_hash FROM run_stage JOIN "
                                  "stage ON stage.key = run_stage.stage "
                                  "WHERE run_stage.run = ?",
                                  {run},
                                  [&](const Query& row) {
                                    out[fmt::format("stage {}: verb", row.text(0))] = row.text(1);
                                    out[fmt::format("stage {}: corpus", row.text(0))] = row.text(2);
                                    out[fmt::format("stage {}: task", row.text(0))] = row.text(3);
                                  });
      !status) {
    return pass(status);
  }
  if (auto status = database.each("SELECT run_stage.title, slot, kind, plugin.name, version FROM run_stage JOIN stage_plugin ON "
                                  "stage_plugin.stage = run_stage.stage "
                                  "JOIN plugin ON plugin.key = stage_plugin.plugin WHERE run_stage.run = ?",
                                  {run},
                                  [&](const Query& row) {
                                    out[fmt::format("stage {}: {}", row.text(0), row.text(1))] =
                                        fmt::format("{}/{}@{}", row.text(2), row.text(3), row.text(4));
                                  });
      !status) {
    return pass(status);
  }
  return out;
}

std::string first_difference(const Described& a, const Described& b, const RunInfo& run_a, const RunInfo& run_b) {
  std::set<std::string> keys;
  for (const auto& [key, value] : a) keys.insert(key);
  for (const auto& [key, value] : b) keys.insert(key);
  const auto shown = [](const Described& all, const std::string& key) {
    const auto found = all.find(key);
    return found == all.end() ? std::string("absent") : found->second;
  };
  for (const auto& key : keys) {
    const auto left = shown(a, key);
    const auto right = shown(b, key);
    if (left != right) return fmt::format("{} is {} in run {} and {} in run {}", key, left, run_a.number, right, run_b.number);
  }
  return fmt::format("runs {} and {} have different stages or inputs", run_a.number, run_b.number);
}

/// What stages ran on. Like is compared with like: a kind of thing ("threads") and a stage's name give the values by arm.
using Found = std::set<std::string>;
using Environment = std::map<std::string, std::map<std::string, std::map<std::string, Found>>>;

Result<Environment> environment(Database& database, std::int64_t study) {
  Environment out;
  // Of each stage the newest attempt that ended well: that one left the values. A stage found in the store may have none here.
  if (auto status = database.each(
          "SELECT DISTINCT run.arm, run_stage.name, threads, device, cpu, worker_build_id, torch_version, torch_build_id FROM "
          "run "
          "JOIN run_stage ON run_stage.run = run.number JOIN attempt ON attempt.key = (SELECT max(key) FROM attempt WHERE "
          "attempt.stage = run_stage.stage AND state IN ('done', 'diverged')) WHERE run.study = ?",
          {study},
          [&](const Query& row) {
            static const char* const kinds[] = {"threads", "device", "CPU", "worker build", "LibTorch version", "LibTorch build"};
            for (int i = 0; i < 6; ++i) {
              if (auto value = row.text(i + 2); !value.empty()) out[kinds[i]][row.text(1)][row.text(0)].insert(std::move(value));
            }
          });
      !status) {
    return pass(status);
  }
  if (auto status =
          database.each("SELECT DISTINCT run.arm, run_stage.name, kind, plugin.name, version, build_id FROM run JOIN run_stage "
                        "ON run_stage.run "
                        "= run.number JOIN stage_plugin ON stage_plugin.stage = run_stage.stage JOIN plugin ON plugin.key = "
                        "stage_plugin.plugin WHERE run.study = ?",
                        {study},
                        [&](const Query& row) {
                          const auto kind = fmt::format("the build of {}/{}@{}", row.text(2), row.text(3), row.text(4));
                          out[kind][row.text(1)][row.text(0)].insert(row.text(5));
                        });
      !status) {
    return pass(status);
  }
  return out;
}

std::string short_values(const std::set<std::string>& values) {
  std::vector<std::string> parts;
  for (const auto& value : values) {
    const bool hash = value.size() >= 32 && value.find(' ') == std::string::npos;
    parts.push_back(hash ? value.substr(0, 12) : value);
  }
  return join(parts, " and ");
}

}  // namespace

Status check_same_config(Database& database, const std::vector<ArmRuns>& arms) {
  for (const auto& arm : arms) {
    for (const auto& run : arm.runs) {
      if (run.config == arm.runs.front().config) continue;
      const auto first = describe(database, arm.runs.front().number);
      if (!first) return pass(first);
      const auto other = describe(database, run.number);
      if (!other) return pass(other);
      return fail(ErrorKind::usage,
                  fmt::format("arm {} has runs that differ in more than the seed, which are never averaged: {}", arm.arm,
                              first_difference(*first, *other, arm.runs.front(), run)),
                  "give each setting an arm of its own");
    }
  }
  return {};
}

Result<std::vector<std::string>> environment_warnings(Database& database, std::int64_t study, const std::vector<ArmRuns>& arms) {
  const auto found = environment(database, study);
  if (!found) return pass(found);
  std::vector<std::string> out;
  for (const auto& [kind, stages] : *found) {
    std::map<std::string, std::vector<std::string>> told;  // the difference in words, and the stages that have it
    for (const auto& [stage, by_arm] : stages) {
      std::set<Found> different;
      std::vector<std::string> parts;
      bool plugin_twice = false;
      for (const auto& arm : arms) {
        const auto values = by_arm.find(arm.arm);
        if (values == by_arm.end()) continue;  // an arm without this stage or plugin, or without attempts here
        different.insert(values->second);
        plugin_twice = plugin_twice || (kind.compare(0, 9, "the build") == 0 && values->second.size() > 1);
        parts.push_back(fmt::format("{}: {}", arm.arm, short_values(values->second)));
      }
      if (different.size() > 1 || plugin_twice) told[join(parts, "; ")].push_back(stage);
    }
    for (const auto& [parts, names] : told) {
      out.push_back(fmt::format("warning: in {} {} arms differ in {} ({}): differences below may come from that",
                                names.size() == 1 ? "stage" : "stages", join(names, " and "), kind, parts));
    }
  }
  return out;
}

Result<std::vector<std::string>> pinned_notes(Database& database, std::int64_t study, const std::vector<ArmRuns>& arms) {
  struct Pinned {
    std::string name;
    std::int64_t stage = 0;
    std::size_t readers = 0;
  };
  std::map<std::string, std::vector<Pinned>> by_arm;
  if (auto status =
          database.each("SELECT run.arm, run_stage.name, stage.key, count(DISTINCT run.number) FROM run JOIN run_stage ON "
                        "run_stage.run = run.number JOIN stage "
                        "ON stage.key = run_stage.stage WHERE run.study = ? AND stage.pinned = 1 AND stage.verb NOT IN " +
                            std::string(measuring_verbs) + " GROUP BY run.arm, run_stage.name, stage.key",
                        {study},
                        [&](const Query& row) {
                          by_arm[row.text(0)].push_back({row.text(1), row.integer(2), static_cast<std::size_t>(row.integer(3))});
                        });
      !status) {
    return pass(status);
  }
  std::set<std::int64_t> pinned;  // stages that the recipe pins and all runs of an arm read
  std::set<std::string> names;
  std::set<int> seeds;
  bool every_arm = !arms.empty();
  bool groups = false;
  for (const auto& arm : arms) {
    if (arm.runs.size() < 2) {
      every_arm = false;
      continue;
    }
    std::set<std::string> units;
    for (const auto& run : arm.runs) {
      units.insert(run.unit);
      seeds.insert(run.seed);
    }
    groups = groups || (units.size() > 1 && units.size() < arm.runs.size());
    bool any = false;
    for (const auto& one : by_arm[arm.arm]) {
      if (one.readers < arm.runs.size()) continue;
      any = true;
      pinned.insert(one.stage);
      names.insert(one.name);
    }
    every_arm = every_arm && any;
  }
  std::vector<std::string> out;
  if (groups) out.push_back("seeds that share a pinned stage are one unit: n counts groups of seeds");
  if (every_arm) {
    const std::vector<std::string> listed(names.begin(), names.end());
    out.push_back(fmt::format("over {} seeds of {} pinned {} ({}): the intervals hold for {}, not for others trained alike",
                              seeds.size(), pinned.size(), pinned.size() == 1 ? "model" : "models", join(listed, ", "),
                              pinned.size() == 1 ? "this model" : "these models"));
  }
  return out;
}

}  // namespace moiety::registry
