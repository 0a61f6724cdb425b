#include "kernel/host/run/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "kernel/base/files.h"
#include "kernel/base/hash.h"
#include "kernel/base/text.h"
#include "kernel/host/json_fields.h"
#include "kernel/host/recipe/choices.h"
#include "registry/report.h"

namespace moiety::host {
namespace {

using nlohmann::json;

/// The one seed that a row has room for: of the data's order where the verb draws one, else the first that it draws.
std::int64_t main_seed(const PlannedStage& stage) {
  const auto& drawn = stage.verb->seeds;
  const std::string purpose =
      std::find(drawn.begin(), drawn.end(), "data") != drawn.end() || drawn.empty() ? "data" : drawn.front();
  const auto found = stage.seeds.find(purpose);
  return found == stage.seeds.end() ? 0 : found->second;
}

registry::StageRow row_of(const PlannedStage& stage) {
  registry::StageRow row;
  row.id = stage.id;
  row.name = stage.name;
  row.verb = stage.verb->name;
  row.config = stage.recorded.is_null() ? stage.config : stage.recorded;
  if (!stage.model.is_null()) row.config["model"] = stage.recorded_model.is_null() ? stage.model : stage.recorded_model;
  row.seed = main_seed(stage);
  row.pinned = stage.pinned;
  for (const auto& input : stage.inputs) row.inputs.emplace_back(input.name, input.stage_id);
  for (const auto& used : stage.components) {
    const auto& c = *used.component;
    row.plugins.emplace_back(used.slot, registry::PluginRow{c.kind, c.name, std::to_string(c.version), c.build_id, c.file});
  }
  row.corpus_hash = stage.corpus_hash;
  row.task_hash = stage.task_hash;
  return row;
}

std::vector<registry::RunStageRow> stages_of(const Plan& plan, const PlannedRun& run) {
  std::vector<registry::RunStageRow> stages;
  for (const auto& one : run.stages) {
    const auto labels = split_labels(one.labels, plan.axes);
    stages.push_back({one.name, one.id, labels.axes, labels.choices});
  }
  return stages;
}

std::optional<registry::MetricRow> metric_of(const std::string& line) {
  const json parsed = json::parse(line, nullptr, false);
  const auto value = real_at(parsed, "value");
  if (!member_at(parsed, "name").is_string() || !value) return std::nullopt;
  registry::MetricRow row;
  row.name = text_at(parsed, "name");
  row.value = *value;
  row.step = whole_at(parsed, "step");
  if (const auto& labels = member_at(parsed, "labels"); labels.is_object()) {
    for (const auto& [key, label] : labels.items()) {
      if (!label.is_string()) return std::nullopt;
      row.labels[key] = label.get<std::string>();
    }
  }
  return row;
}

}  // namespace

Result<std::vector<registry::MetricRow>> read_series(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return pass(text);
  std::vector<registry::MetricRow> rows;
  int number = 0;
  for (const auto& line : split(*text, '\n')) {
    ++number;
    if (line.empty()) continue;
    auto row = metric_of(line);
    if (!row) return fail(ErrorKind::failed, fmt::format("{}:{}: not a metric row", path, number));
    rows.push_back(std::move(*row));
  }
  return rows;
}

std::vector<registry::MetricDeclaration> declared_metrics(const Plan& plan) {
  std::map<std::string, registry::MetricDeclaration> found;
  const auto add = [&found](const std::vector<OutputDeclaration>& outputs) {
    for (const auto& output : outputs)
      found.emplace(output.name, registry::MetricDeclaration{output.name, output.unit, output.better, output.doc});
  };
  for (const auto& stage : plan.stages) {
    add(stage.verb->metrics);
    for (const auto& used : stage.components) add(used.component->outputs);
  }
  std::vector<registry::MetricDeclaration> list;
  for (auto& [name, declaration] : found) list.push_back(std::move(declaration));
  return list;
}

/// Leaves study_ and the ids of `runs` as they are in the registry when the newest study of this recipe has the very same runs.
Status Recorder::find_study(std::vector<registry::RunRow>* runs) {
  // The hash is made of hexadecimal digits: nothing in it can leave the quotes.
  const auto text = registry::sql_text(registry_,
                                       "SELECT study.id AS study, run.id AS run, run.arm AS arm, run.seed AS seed, "
                                       "run_stage.title AS name, stage.id AS stage FROM run "
                                       "JOIN study ON study.key = run.study LEFT JOIN run_stage ON run_stage.run = run.number "
                                       "LEFT JOIN stage ON stage.key = run_stage.stage "
                                       "WHERE study.key = (SELECT max(key) FROM study WHERE recipe = '" +
                                           plan_->recipe_hash + "') ORDER BY run.number, run_stage.position",
                                       registry::Format::json);
  if (!text) return pass(text);
  const json rows = json::parse(*text, nullptr, false);
  if (!rows.is_array() || rows.empty()) return {};
  using Key = std::pair<std::string, std::int64_t>;
  std::map<Key, std::pair<std::string, std::vector<std::pair<std::string, std::string>>>> known;
  for (const auto& row : rows) {
    auto& run = known[{row.at("arm").get<std::string>(), row.at("seed").get<std::int64_t>()}];
    run.first = row.at("run").get<std::string>();
    if (row.at("stage").is_null()) continue;  // all of it waited for results
    run.second.emplace_back(row.at("name").get<std::string>(), row.at("stage").get<std::string>());
  }
  if (known.size() > runs->size()) return {};
  for (auto& run : *runs) {
    const auto found = known.find({run.arm, run.seed});
    // A run that is not there yet was not written before the process died: it is added now.
    if (found == known.end()) continue;
    // A stage that waits for a result is known on one side only: this run, or the one before, has come farther.
    std::map<std::string, std::string> planned;
    for (const auto& one : run.stages) {
      AxisLabels labels = one.labels;
      labels.insert(one.trial.begin(), one.trial.end());
      planned.emplace(instance_text(one.name, labels), one.stage_id);
    }
    const bool waits = plan_->run(run.arm, static_cast<int>(run.seed))->waits;
    for (const auto& [title, id] : found->second.second) {
      const auto stage = planned.find(title);
      if (stage != planned.end() ? stage->second != id : !waits) return {};
    }
  }
  for (auto& run : *runs) {
    if (const auto found = known.find({run.arm, run.seed}); found != known.end()) run.id = found->second.first;
  }
  study_ = rows[0].at("study").get<std::string>();
  continued_ = true;
  return {};
}

Status Recorder::begin(const std::vector<registry::ClaimRow>& claims, const Provenance& provenance) {
  if (auto status = registry_.reap_dead_attempts(); !status) return status;
  if (auto status = registry_.declare_metrics(declared_metrics(*plan_)); !status) return status;
  std::vector<registry::RunRow> runs;
  for (const auto& run : plan_->runs) {
    runs.push_back({new_ulid(), run.arm, run.seed, stages_of(*plan_, run), run.group});
  }
  if (auto status = find_study(&runs); !status) return status;
  if (study_.empty()) study_ = new_ulid();

  registry::StudyRow study;
  study.id = study_;
  study.name = plan_->recipe_name;
  study.about = plan_->about;
  study.recipe_hash = plan_->recipe_hash;
  study.raw_text = plan_->raw_text;
  study.resolved_text = plan_->resolved_text;
  study.recipe_path = plan_->recipe_path;
  study.baseline = plan_->baseline;
  study.seeds = plan_->seeds;
  study.confidence = plan_->confidence;
  study.host_build_id = own_build_id();
  study.git_commit = provenance.commit;
  study.git_diff = provenance.diff;
  study.git_dirty = provenance.dirty;
  std::vector<registry::ArmRow> arms;
  for (const auto& arm : plan_->arms) arms.push_back({arm.name, arm.patch_text, static_cast<int>(arms.size())});
  if (auto status = registry_.begin_study(study, arms, claims); !status) return status;
  if (auto status = add_stages(); !status) return status;
  for (const auto& run : runs) {
    if (auto status = registry_.add_run(study_, run); !status) return status;
    run_ids_[{run.arm, run.seed}] = run.id;
  }
  return {};
}

Status Recorder::add_stages() {
  for (const auto& stage : plan_->stages) {
    if (auto status = registry_.add_stage(row_of(stage)); !status) return status;
    const auto state = registry_.stage_state(stage.id);
    if (!state) return pass(state);
    // What failed or was skipped before gets another try now; what another process runs or has done stays as it is, and what
    // diverged would diverge again.
    if (*state == "failed" || *state == "skipped") {
      if (auto status = registry_.set_stage_state(stage.id, "waiting"); !status) return status;
    }
  }
  return {};
}

Status Recorder::extend(const Plan& plan) {
  plan_ = &plan;
  if (auto status = registry_.declare_metrics(declared_metrics(plan)); !status) return status;
  if (auto status = add_stages(); !status) return status;
  for (const auto& run : plan.runs) {
    registry::RunRow row{run_id(run.arm, run.seed), run.arm, run.seed, stages_of(plan, run), run.group};
    if (auto status = registry_.add_run(study_, row); !status) return status;
  }
  return {};
}

std::string Recorder::run_id(const std::string& arm, int seed) const {
  const auto found = run_ids_.find({arm, seed});
  return found == run_ids_.end() ? "" : found->second;
}

Result<std::int64_t> Recorder::begin_attempt(const PlannedStage& stage, const std::string& log, std::int64_t pid) {
  registry::AttemptRow row;
  row.stage_id = stage.id;
  row.study_id = study_;
  row.threads = stage.threads;
  row.cpu = catalog_.cpu;
  row.worker_build_id = catalog_.worker_build_id;
  row.torch_version = catalog_.torch_version;
  row.torch_build_id = catalog_.torch_build_id;
  row.pid = pid;
  row.log_path = log;
  return registry_.begin_attempt(row);
}

Status Recorder::end_attempt(const PlannedStage& stage, std::int64_t attempt, const StageEnd& end,
                             const std::string& stderr_tail) {
  registry::AttemptEnd row;
  row.state = name(end.state);
  row.exit_code = end.exit_code;
  row.signal = end.signal;
  row.error = end.error;
  row.component = end.component;
  row.function = end.function;
  row.stderr_tail = stderr_tail;
  row.wall_seconds = end.wall_seconds;
  row.cpu_seconds = end.cpu_seconds;
  row.peak_memory = end.peak_memory;
  row.tokens = end.tokens;
  row.flops = end.flops;
  if (end.state == StageState::done) {
    const auto stored = store_.look_up(stage.id);
    if (stored.state == StoredStage::State::whole) {
      if (auto status = add_artifacts(stage, stored.manifest); !status) return status;
    }
  }
  return registry_.end_attempt(attempt, row);
}

Status Recorder::add_artifacts(const PlannedStage& stage, const json& manifest) {
  const auto& files = member_at(manifest, "files");
  if (!files.is_object()) return {};
  for (const auto& [name, facts] : files.items()) {
    registry::ArtifactRow row;
    row.stage_id = stage.id;
    row.name = name;
    row.path = store_.artifact(stage.id) + "/" + name;
    row.sha256 = text_at(facts, "sha256");
    row.bytes = whole_at(facts, "bytes");
    if (auto status = registry_.add_artifact(row); !status) return status;
  }
  return {};
}

Status Recorder::fill(const PlannedStage& stage, const json& manifest) {
  const auto path = store_.artifact(stage.id) + "/series.jsonl";
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    const auto rows = read_series(path);
    if (!rows) return pass(rows);
    if (auto status = registry_.write_metrics(stage.id, *rows); !status) return status;
  }
  // The cost is that of whoever ran the stage; an attempt without a process and a log carries it.
  const auto attempt = begin_attempt(stage, "", 0);
  if (!attempt) return pass(attempt);
  StageEnd end;
  end.state = StageState::done;
  const json& cost = member_at(manifest, "cost");
  end.tokens = whole_at(cost, "tokens");
  end.flops = real_at(cost, "flops").value_or(0);
  end.wall_seconds = real_at(cost, "wall_seconds").value_or(0);
  end.cpu_seconds = real_at(cost, "cpu_seconds").value_or(0);
  end.peak_memory = whole_at(cost, "peak_memory");
  if (auto status = end_attempt(stage, *attempt, end, ""); !status) return status;
  return event(stage.id, "info", "taken from the store, where an earlier run left it");
}

}  // namespace moiety::host
