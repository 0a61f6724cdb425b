// Reads everything the registry knows of one run.
#include "registry/run_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/base/text.h"
#include "registry/table.h"

namespace moiety::registry {

namespace {

using Json = nlohmann::ordered_json;

constexpr int curve_columns = 60;

Json value_or_null(const Query& row, int column) { return row.null(column) ? Json() : json_number(row.real(column)); }

/// Line of `[stage.NAME]` in the recipe as written, 0 when it stands elsewhere (a parent, a dotted key).
int recipe_line(const std::string& raw_text, const std::string& title) {
  const std::string stage = title.substr(0, title.find(' '));  // without the labels of its axes
  int line = 0;
  for (const auto& text : split(raw_text, '\n')) {
    ++line;
    const auto start = text.find_first_not_of(" \t");
    if (start == std::string::npos || text[start] != '[') continue;
    const auto close = text.find(']', start);
    if (close != std::string::npos && text.substr(start + 1, close - start - 1) == "stage." + stage) return line;
  }
  return 0;
}

/// Means of equal stretches of a series as bars of eight heights; a stretch with a NaN or an infinity is a `x`.
std::string curve(const std::vector<double>& values) {
  static const char* const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::size_t columns = std::min<std::size_t>(curve_columns, values.size());
  std::vector<double> means;
  for (std::size_t i = 0; i < columns; ++i) {
    const std::size_t from = i * values.size() / columns;
    const std::size_t to = (i + 1) * values.size() / columns;
    double sum = 0;
    for (std::size_t j = from; j < to; ++j) sum += values[j];
    means.push_back(sum / static_cast<double>(to - from));
  }
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const double mean : means) {
    if (!std::isfinite(mean)) continue;
    low = std::min(low, mean);
    high = std::max(high, mean);
  }
  std::string out;
  for (const double mean : means) {
    if (!std::isfinite(mean)) {
      out += "x";
      continue;
    }
    const double height = high > low ? (mean - low) / (high - low) : 0;
    out += bars[std::clamp(static_cast<int>(height * 8), 0, 7)];
  }
  return out;
}

class RunReader {
 public:
  RunReader(Database& database, const RunInfo& run) : database_(database), run_(run) {}

  Result<Json> read() {
    Status status;
    for (const auto part :
         {&RunReader::read_head, &RunReader::read_stages, &RunReader::read_attempts, &RunReader::read_differences,
          &RunReader::read_metrics, &RunReader::read_curves, &RunReader::read_plugins, &RunReader::read_events}) {
      status = (this->*part)();
      if (!status) return pass(status);
    }
    return out_;
  }

 private:
  Status read_head() {
    return database_.each(
        "SELECT study.id, study.name, study.recipe_path, study.raw_text, study.baseline, arm.patch_text, study.git_commit, "
        "study.git_dirty, "
        "study.host_build_id FROM study JOIN arm ON arm.study = study.key WHERE study.key = ? AND arm.name = ?",
        {run_.study, run_.arm}, [&](const Query& row) {
          raw_text_ = row.text(3);
          baseline_ = row.text(4);
          out_ = {{"run", run_.number},
                  {"id", run_.id},
                  {"study", row.text(1)},
                  {"study_id", row.text(0)},
                  {"arm", run_.arm},
                  {"seed", run_.seed},
                  {"state", run_.state},
                  {"recipe", row.text(2)},
                  {"baseline", baseline_},
                  {"patch", row.text(5)},
                  {"git_commit", row.text(6)},
                  {"git_dirty", row.integer(7) != 0},
                  {"host_build_id", row.text(8)}};
        });
  }

  Status read_stages() {
    auto stages = Json::array();
    std::vector<std::int64_t> keys;
    std::vector<bool> unchosen;
    const auto status = database_.each(
        "SELECT stage.key, run_stage.title, stage.verb, stage.state, stage.pinned, stage.seed, stage.id, "
        "(SELECT count(*) FROM attempt WHERE attempt.stage = stage.key), run_stage.chosen "
        "FROM run_stage JOIN stage ON stage.key = run_stage.stage WHERE run_stage.run = ? ORDER BY run_stage.position",
        {run_.number}, [&](const Query& row) {
          keys.push_back(row.integer(0));
          unchosen.push_back(!row.null(8) && row.integer(8) == 0);
          stages.push_back({{"stage", row.text(1)},
                            {"verb", row.text(2)},
                            {"state", row.text(3)},
                            {"pinned", row.integer(4) != 0},
                            {"seed", row.integer(5)},
                            {"id", row.text(6)},
                            {"attempts", row.integer(7)}});
        });
    if (!status) return status;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto note = stale_note(database_, keys[i]);
      if (!note) return pass(note);
      stages[i]["note"] = unchosen[i] ? "not chosen" + (note->empty() ? "" : ", " + *note) : *note;
    }
    out_["stages"] = stages;
    return {};
  }

  Status read_attempts() {
    auto attempts = Json::array();
    const auto status = database_.each(
        "SELECT run_stage.title, a.number, a.state, a.exit_code, a.signal, a.error, a.component, a.function, a.stderr_tail, "
        "a.log_path, "
        "a.wall_seconds, a.cpu_seconds, a.peak_memory, a.tokens, a.flops, a.threads, a.device, a.cpu, a.worker_build_id, "
        "a.torch_version, "
        "a.torch_build_id, a.host, a.pid FROM run_stage JOIN attempt AS a ON a.stage = run_stage.stage WHERE run_stage.run = ? "
        "ORDER BY run_stage.position, a.number",
        {run_.number}, [&](const Query& row) {
          Json attempt = {{"stage", row.text(0)},
                          {"attempt", row.integer(1)},
                          {"state", row.text(2)},
                          {"exit_code", row.null(3) ? Json() : Json(row.integer(3))},
                          {"signal", row.null(4) ? Json() : Json(row.integer(4))},
                          {"error", row.text(5)},
                          {"component", row.text(6)},
                          {"function", row.text(7)},
                          {"stderr_tail", row.text(8)},
                          {"log", row.text(9)},
                          {"recipe_line", recipe_line(raw_text_, row.text(0))}};
          attempt["wall_seconds"] = value_or_null(row, 10);
          attempt["cpu_seconds"] = value_or_null(row, 11);
          attempt["peak_memory"] = row.null(12) ? Json() : Json(row.integer(12));
          attempt["tokens"] = row.null(13) ? Json() : Json(row.integer(13));
          attempt["flops"] = value_or_null(row, 14);
          attempt["threads"] = row.integer(15);
          const char* const names[] = {"device", "cpu", "worker_build_id", "torch_version", "torch_build_id", "host"};
          for (int i = 0; i < 6; ++i) attempt[names[i]] = row.text(16 + i);
          attempt["pid"] = row.integer(22);
          attempts.push_back(attempt);
        });
    out_["attempts"] = attempts;
    return status;
  }

  Status read_differences() {
    auto differences = Json::array();
    if (run_.arm != baseline_) {
      const auto other =
          database_.integer("SELECT number FROM run WHERE study = ?1 AND arm = ?2 ORDER BY seed <> ?3, number LIMIT 1",
                            {run_.study, baseline_, run_.seed});
      if (!other) return pass(other);
      if (*other) {
        const auto status = database_.each(
            "WITH mine AS (SELECT run_stage.title AS stage, path, txt FROM run_stage JOIN param ON param.stage = run_stage.stage "
            "WHERE run = ?1), "
            "base AS (SELECT run_stage.title AS stage, path, txt FROM run_stage JOIN param ON param.stage = run_stage.stage "
            "WHERE "
            "run = ?2) "
            "SELECT mine.stage, mine.path, mine.txt, base.txt FROM mine LEFT JOIN base ON base.stage = mine.stage AND base.path "
            "= mine.path "
            "WHERE base.txt IS NOT mine.txt "
            "UNION ALL SELECT base.stage, base.path, NULL, base.txt FROM base LEFT JOIN mine ON mine.stage = base.stage AND "
            "mine.path = base.path WHERE mine.txt IS NULL ORDER BY 1, 2",
            {run_.number, **other}, [&](const Query& row) {
              differences.push_back({{"stage", row.text(0)},
                                     {"parameter", row.text(1)},
                                     {"value", row.null(2) ? Json() : Json(row.text(2))},
                                     {"baseline", row.null(3) ? Json() : Json(row.text(3))}});
            });
        if (!status) return status;
      }
    }
    out_["differences"] = differences;
    return {};
  }

  Status read_metrics() {
    auto metrics = Json::array();
    const auto status = database_.each(
        "SELECT stage, metric, unit, labels, step, value FROM v_final WHERE run = ? ORDER BY stage, metric, labels",
        {run_.number}, [&](const Query& row) {
          metrics.push_back({{"stage", row.text(0)},
                             {"metric", row.text(1)},
                             {"unit", row.text(2)},
                             {"labels", Json::parse(row.text(3), nullptr, false)},
                             {"step", row.integer(4)},
                             {"value", json_number(row.null(5) ? std::numeric_limits<double>::quiet_NaN() : row.real(5))}});
        });
    out_["metrics"] = metrics;
    return status;
  }

  /// One curve a training stage: of its series called loss, or the first whose name holds "loss".
  Status read_curves() {
    struct Series {
      std::string stage, name, labels;
      std::int64_t key = 0, name_key = 0, label_key = 0;
    };
    std::vector<Series> all;
    if (auto status = database_.each(
            "SELECT run_stage.title, metric_name.name, label.labels, s.stage, s.name, s.label FROM run_stage "
            "JOIN metric_summary AS s ON s.stage = run_stage.stage JOIN metric_name ON metric_name.key = s.name "
            "JOIN label ON label.key = s.label WHERE run_stage.run = ? AND s.n > 2 AND metric_name.name LIKE '%loss%' "
            "ORDER BY run_stage.position, metric_name.name <> 'loss', metric_name.name, label.labels",
            {run_.number},
            [&](const Query& row) {
              all.push_back({row.text(0), row.text(1), row.text(2), row.integer(3), row.integer(4), row.integer(5)});
            });
        !status) {
      return status;
    }
    auto curves = Json::array();
    std::string last_stage;
    for (const auto& series : all) {
      if (series.stage == last_stage) continue;
      last_stage = series.stage;
      std::vector<double> values;
      std::int64_t last_step = 0;
      if (auto status = database_.each("SELECT step, value FROM metric WHERE stage = ? AND name = ? AND label = ? ORDER BY step",
                                       {series.key, series.name_key, series.label_key},
                                       [&](const Query& row) {
                                         last_step = row.integer(0);
                                         values.push_back(row.null(1) ? std::numeric_limits<double>::quiet_NaN() : row.real(1));
                                       });
          !status) {
        return status;
      }
      curves.push_back({{"stage", series.stage},
                        {"metric", metric_title(series.name, labels_of(series.labels))},
                        {"first", json_number(values.front())},
                        {"last", json_number(values.back())},
                        {"last_step", last_step},
                        {"curve", curve(values)}});
    }
    out_["curves"] = curves;
    return {};
  }

  Status read_plugins() {
    auto plugins = Json::array();
    const auto status = database_.each(
        "SELECT run_stage.title, stage_plugin.slot, plugin.kind, plugin.name, plugin.version, plugin.build_id, plugin.path FROM "
        "run_stage "
        "JOIN stage_plugin ON stage_plugin.stage = run_stage.stage JOIN plugin ON plugin.key = stage_plugin.plugin WHERE "
        "run_stage.run = ? "
        "ORDER BY run_stage.position, stage_plugin.slot",
        {run_.number}, [&](const Query& row) {
          plugins.push_back({{"stage", row.text(0)},
                             {"slot", row.text(1)},
                             {"component", fmt::format("{}/{}@{}", row.text(2), row.text(3), row.text(4))},
                             {"build_id", row.text(5)},
                             {"file", row.text(6)}});
        });
    out_["plugins"] = plugins;
    return status;
  }

  Status read_events() {
    auto events = Json::array();
    const auto status = database_.each(
        "SELECT strftime('%Y-%m-%d %H:%M:%S', time / 1000.0, 'unixepoch'), run_stage.title, level, source, message FROM "
        "run_stage "
        "JOIN event ON event.stage = run_stage.stage WHERE run_stage.run = ? ORDER BY time, event.key",
        {run_.number}, [&](const Query& row) {
          events.push_back({{"time", row.text(0)},
                            {"stage", row.text(1)},
                            {"level", row.text(2)},
                            {"source", row.text(3)},
                            {"message", row.text(4)}});
        });
    out_["events"] = events;
    return status;
  }

  Database& database_;
  RunInfo run_;
  Json out_;
  std::string raw_text_, baseline_;
};

}  // namespace

Result<Json> read_run(Database& database, const RunInfo& run) { return RunReader(database, run).read(); }

}  // namespace moiety::registry
