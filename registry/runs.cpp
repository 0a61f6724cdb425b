// Runs and stages: what is to be done, with which parameters, plugins and inputs.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kernel/base/hash.h"
#include "kernel/base/text.h"
#include "registry/internal.h"
#include "registry/report_common.h"

namespace moiety::registry {

namespace {

using nlohmann::json;

struct Leaf {
  std::string path, type, text;
  std::optional<double> number;
};

void add_leaves(const json& value, const std::string& path, std::vector<Leaf>& out) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, child] : value.items()) add_leaves(child, path.empty() ? key : path + "." + key, out);
  } else if (value.is_array() && !value.empty()) {
    for (std::size_t i = 0; i < value.size(); ++i) add_leaves(value[i], fmt::format("{}[{}]", path, i), out);
  } else if (value.is_boolean()) {
    out.push_back({path, "bool", value.get<bool>() ? "true" : "false", value.get<bool>() ? 1.0 : 0.0});
  } else if (value.is_number_integer()) {
    out.push_back({path, "integer", value.dump(), value.get<double>()});
  } else if (value.is_number()) {
    out.push_back({path, "number", number(value.get<double>()), value.get<double>()});
  } else if (value.is_string()) {
    out.push_back({path, "text", value.get<std::string>(), std::nullopt});
  } else if (!path.empty()) {
    out.push_back({path, value.is_null() ? "null" : "empty", value.dump(), std::nullopt});
  }
}

/// Everything a stage does apart from its seed and the exact builds: runs that differ in it are never averaged.
std::string config_hash(const StageRow& stage) {
  json config = stage.config;
  if (config.is_object()) {
    config.erase("seed");
    config.erase("seeds");
  }
  json plugins = json::object();
  for (const auto& [slot, plugin] : stage.plugins) plugins[slot] = {plugin.kind, plugin.name, plugin.version};
  json inputs = json::array();
  for (const auto& [name, id] : stage.inputs) inputs.push_back(name);
  const json all = {{"verb", stage.verb},          {"config", config},       {"plugins", plugins}, {"inputs", inputs},
                    {"corpus", stage.corpus_hash}, {"task", stage.task_hash}};
  return sha256(all.dump(-1, ' ', false, json::error_handler_t::replace));
}

/// A run may name a stage, and a stage an input, that is described later.
Result<std::int64_t> stage_key_or_new(Database& database, const std::string& id, const std::string& name) {
  if (auto status = database.execute("INSERT INTO stage(id, described, name, verb, config, config_hash, seed, pinned, "
                                     "corpus_hash, task_hash, state, created) "
                                     "VALUES(?, 0, ?, '', '{}', '', 0, 0, '', '', 'waiting', ?) ON CONFLICT(id) DO NOTHING",
                                     {id, name, now_milliseconds()});
      !status) {
    return pass(status);
  }
  return stage_key(database, id);
}

Status add_stage_rows(Database& database, const StageRow& stage, std::int64_t key) {
  std::vector<Leaf> leaves;
  add_leaves(stage.config, "", leaves);
  for (const auto& leaf : leaves) {
    if (auto status = database.execute("INSERT INTO param(stage, path, type, num, txt) VALUES(?, ?, ?, ?, ?)",
                                       {key, leaf.path, leaf.type, leaf.number, leaf.text});
        !status) {
      return status;
    }
  }
  int position = 0;
  for (const auto& [name, id] : stage.inputs) {
    const auto input = stage_key_or_new(database, id, name);
    if (!input) return pass(input);
    if (auto status = database.execute("INSERT INTO stage_input(stage, position, name, input) VALUES(?, ?, ?, ?)",
                                       {key, position++, name, *input});
        !status) {
      return status;
    }
  }
  for (const auto& [slot, plugin] : stage.plugins) {
    if (auto status = database.execute(
            "INSERT INTO plugin(kind, name, version, build_id, path) VALUES(?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            {plugin.kind, plugin.name, plugin.version, plugin.build_id, plugin.path});
        !status) {
      return status;
    }
    if (auto status =
            database.execute("INSERT INTO stage_plugin(stage, slot, plugin) "
                             "SELECT ?, ?, key FROM plugin WHERE kind = ? AND name = ? AND version = ? AND build_id = ?",
                             {key, slot, plugin.kind, plugin.name, plugin.version, plugin.build_id});
        !status) {
      return status;
    }
  }
  return {};
}

}  // namespace

Status refresh_run_config(Database& database, std::int64_t run) {
  Sha256 hash;
  if (auto status =
          database.each("SELECT run_stage.title, stage.config_hash FROM run_stage JOIN stage ON stage.key = run_stage.stage "
                        "WHERE run_stage.run = ? ORDER BY run_stage.position",
                        {run}, [&](const Query& row) { hash.update(row.text(0)).update("\n").update(row.text(1)).update("\n"); });
      !status) {
    return status;
  }
  return database.execute("UPDATE run SET config_hash = ? WHERE number = ?", {hash.hex(), run});
}

namespace {

/// The stages that the run does not have yet, behind those that it has.
Status add_run_stages(Database& database, std::int64_t number, const RunRow& run) {
  std::set<std::string> titles;
  std::int64_t position = 0;
  if (auto status = database.each("SELECT title, position FROM run_stage WHERE run = ?", {number},
                                  [&](const Query& row) {
                                    titles.insert(row.text(0));
                                    position = std::max(position, row.integer(1) + 1);
                                  });
      !status) {
    return status;
  }
  for (const auto& one : run.stages) {
    Labels all = one.labels;
    all.insert(one.trial.begin(), one.trial.end());
    const std::string title = metric_title(one.name, all);
    if (titles.count(title) != 0) continue;
    const auto stage = stage_key_or_new(database, one.stage_id, one.name);
    if (!stage) return pass(stage);
    if (auto status = database.execute(
            "INSERT INTO run_stage(run, position, name, stage, labels, title, trial, chosen) VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
            {number, position++, one.name, *stage, labels_text(one.labels), title, labels_text(one.trial),
             one.trial.empty() ? Value(1) : Value(nullptr)});
        !status) {
      return status;
    }
  }
  return refresh_run_config(database, number);
}

}  // namespace

Status Registry::add_run(const std::string& study_id, const RunRow& run) {
  auto& database = connection_->database;
  return database.transaction([&]() -> Status {
    const auto study = study_key(database, study_id);
    if (!study) return pass(study);
    if (!*study) return fail(ErrorKind::failed, "a run needs a study");
    const auto known = database.integer("SELECT number FROM run WHERE id = ?", {run.id});
    if (!known) return pass(known);
    if (*known) {
      if (auto status = database.execute("UPDATE run SET unit = ? WHERE number = ?", {run.group, **known}); !status)
        return status;
      return add_run_stages(database, **known, run);
    }
    // The short number is given here, inside the transaction: two processes never share one.
    if (auto status =
            database.execute("INSERT INTO run(id, study, arm, seed, unit, config_hash, created) VALUES(?, ?, ?, ?, ?, '', ?)",
                             {run.id, **study, run.arm, run.seed, run.group, now_milliseconds()});
        !status) {
      return status;
    }
    const std::int64_t number = database.last_rowid();
    return add_run_stages(database, number, run);
  });
}

Status Registry::add_stage(const StageRow& stage) {
  auto& database = connection_->database;
  return database.transaction([&]() -> Status {
    const auto key = stage_key_or_new(database, stage.id, stage.name);
    if (!key) return pass(key);
    if (stage.pinned) {
      if (auto status = database.execute("UPDATE stage SET pinned = 1 WHERE key = ? AND pinned = 0", {*key}); !status)
        return status;
    }
    const auto described = database.integer("SELECT described FROM stage WHERE key = ?", {*key});
    if (!described) return pass(described);
    if (described->value_or(0) == 1) return {};
    if (auto status = database.execute(
            "UPDATE stage SET described = 1, name = ?, verb = ?, config = ?, config_hash = ?, seed = ?, corpus_hash = ?, "
            "task_hash = ? WHERE key = ?",
            {stage.name, stage.verb, stage.config.dump(-1, ' ', false, json::error_handler_t::replace), config_hash(stage),
             stage.seed, stage.corpus_hash, stage.task_hash, *key});
        !status) {
      return status;
    }
    if (auto status = add_stage_rows(database, stage, *key); !status) return status;
    std::vector<std::int64_t> runs;
    if (auto status = database.each("SELECT run FROM run_stage WHERE stage = ?", {*key},
                                    [&](const Query& row) { runs.push_back(row.integer(0)); });
        !status) {
      return status;
    }
    for (const auto run : runs) {
      if (auto status = refresh_run_config(database, run); !status) return status;
    }
    return {};
  });
}

Status Registry::set_stage_state(const std::string& stage_id, const std::string& state) {
  auto& database = connection_->database;
  return database.transaction([&]() -> Status {
    const auto stage = stage_key(database, stage_id);
    if (!stage) return pass(stage);
    return database.execute("UPDATE stage SET state = ? WHERE key = ?", {state, *stage});
  });
}

Result<std::string> Registry::stage_state(const std::string& stage_id) {
  const auto state = connection_->database.text("SELECT state FROM stage WHERE id = ?", {stage_id});
  if (!state) return pass(state);
  return state->value_or("");
}

}  // namespace moiety::registry
