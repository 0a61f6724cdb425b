// Attempts: one process that worked on a stage; how it ended is said by its parent, never guessed from its last words.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "registry/internal.h"

namespace moiety::registry {

namespace {

constexpr std::array<const char*, 4> end_states = {"done", "failed", "diverged", "interrupted"};

Status set_process(Database& database, std::int64_t attempt, std::int64_t pid) {
  const auto process = identify_process(pid);
  return database.execute(
      "UPDATE attempt SET host = ?, boot_id = ?, pid_space = ?, pid = ?, pid_start = ?, heartbeat = ? WHERE key = ?",
      {process.host, process.boot_id, process.pid_space, process.pid, process.start, now_milliseconds(), attempt});
}

}  // namespace

Result<std::int64_t> Registry::begin_attempt(const AttemptRow& attempt) {
  auto& database = connection_->database;
  std::int64_t key = 0;
  const auto status = database.transaction([&]() -> Status {
    const auto stage = stage_key(database, attempt.stage_id);
    if (!stage) return pass(stage);
    const auto study = study_key(database, attempt.study_id);
    if (!study) return pass(study);
    const auto process = identify_process(attempt.pid > 0 ? attempt.pid : getpid());
    const auto now = now_milliseconds();
    const Value study_value = *study ? Value(**study) : Value(nullptr);
    if (auto inserted = database.execute(
            "INSERT INTO attempt(stage, study, number, state, started, heartbeat, host, boot_id, pid_space, pid, pid_start, "
            "threads, "
            "device, cpu, worker_build_id, torch_version, torch_build_id, log_path) "
            "SELECT ?1, ?2, 1 + ifnull(max(number), 0), 'running', ?3, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15 "
            "FROM attempt WHERE stage = ?1",
            {*stage, study_value, now, process.host, process.boot_id, process.pid_space, process.pid, process.start,
             attempt.threads, attempt.device, attempt.cpu, attempt.worker_build_id, attempt.torch_version, attempt.torch_build_id,
             attempt.log_path});
        !inserted) {
      return inserted;
    }
    key = database.last_rowid();
    return database.execute("UPDATE stage SET state = 'running' WHERE key = ?", {*stage});
  });
  if (!status) return pass(status);
  return key;
}

Status Registry::attempt_process(std::int64_t attempt, std::int64_t pid) {
  auto& database = connection_->database;
  return database.transaction([&] { return set_process(database, attempt, pid); });
}

Status Registry::heartbeat(std::int64_t attempt) {
  return connection_->database.execute("UPDATE attempt SET heartbeat = ? WHERE key = ?", {now_milliseconds(), attempt});
}

Status Registry::end_attempt(std::int64_t attempt, const AttemptEnd& end) {
  auto& database = connection_->database;
  if (std::none_of(end_states.begin(), end_states.end(), [&](const char* state) { return end.state == state; })) {
    return fail(ErrorKind::failed, fmt::format("an attempt cannot end as `{}`", end.state),
                "done, failed, diverged or interrupted");
  }
  // How a stage ended is worth a wait for the disk: it must survive a power cut, unlike the last half second of a curve.
  if (auto status = database.script("PRAGMA synchronous = FULL"); !status) return status;
  const auto status = database.transaction([&]() -> Status {
    const auto now = now_milliseconds();
    if (auto updated = database.execute(
            "UPDATE attempt SET state = ?, ended = ?, heartbeat = ?, exit_code = ?, signal = ?, error = ?, component = ?, "
            "function = ?, "
            "stderr_tail = ?, wall_seconds = ?, cpu_seconds = ?, peak_memory = ?, tokens = ?, flops = ? WHERE key = ?",
            {end.state, now, now, end.exit_code, end.signal, end.error, end.component, end.function, end.stderr_tail,
             end.wall_seconds, end.cpu_seconds, end.peak_memory, end.tokens, end.flops, attempt});
        !updated) {
      return updated;
    }
    if (database.changes() == 0) {
      return fail(ErrorKind::failed, fmt::format("{}: no attempt {} is registered", database.path(), attempt));
    }
    // A late report of an older attempt does not overwrite what a newer one says.
    return database.execute(
        "UPDATE stage SET state = ?1 WHERE key = (SELECT stage FROM attempt WHERE key = ?2) AND NOT EXISTS "
        "(SELECT 1 FROM attempt AS newer WHERE newer.stage = stage.key AND newer.key > ?2)",
        {end.state, attempt});
  });
  const auto normal = database.script("PRAGMA synchronous = NORMAL");
  return status ? normal : status;
}

Status Registry::reap_dead_attempts() {
  auto& database = connection_->database;
  struct Running {
    std::int64_t key, stage;
    ProcessIdentity process;
  };
  const auto running = [&](std::vector<Running>& out) {
    return database.each(
        "SELECT key, stage, host, boot_id, pid_space, pid, pid_start FROM attempt WHERE state = 'running'", {},
        [&](const Query& row) {
          out.push_back({row.integer(0), row.integer(1), {row.text(2), row.text(3), row.text(4), row.integer(5), row.text(6)}});
        });
  };
  const auto dead = [](const Running& attempt) { return !may_be_alive(attempt.process); };
  std::vector<Running> seen;
  if (auto status = running(seen); !status) return status;
  if (std::none_of(seen.begin(), seen.end(), dead)) return {};
  return database.transaction([&]() -> Status {
    std::vector<Running> attempts;
    if (auto status = running(attempts); !status) return status;
    for (const auto& attempt : attempts) {
      if (!dead(attempt)) continue;
      if (auto status = database.execute(
              "UPDATE attempt SET state = 'interrupted', ended = heartbeat, error = 'its process is gone and left no end mark' "
              "WHERE key = ?",
              {attempt.key});
          !status) {
        return status;
      }
      if (auto status =
              database.execute("UPDATE stage SET state = 'interrupted' WHERE key = ?1 AND state = 'running' AND NOT EXISTS "
                               "(SELECT 1 FROM attempt WHERE attempt.stage = ?1 AND attempt.state = 'running')",
                               {attempt.stage});
          !status) {
        return status;
      }
      if (auto status =
              database.execute("INSERT INTO event(stage, time, level, source, message) VALUES(?, ?, 'warning', 'registry', ?)",
                               {attempt.stage, now_milliseconds(),
                                fmt::format("process {} on {} is gone and left no end mark: marked as interrupted",
                                            attempt.process.pid, attempt.process.host)});
          !status) {
        return status;
      }
    }
    return {};
  });
}

}  // namespace moiety::registry
