// `moiety runs` and `moiety logs`.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <set>

#include "kernel/base/text.h"
#include "registry/report.h"
#include "registry/report_common.h"
#include "registry/table.h"

namespace moiety::registry {

namespace {

/// A column of measured values: stage, metric, labels without the domain.
struct Column {
  std::string stage, metric, labels;
  bool operator<(const Column& other) const {
    return std::tie(metric, labels, stage) < std::tie(other.metric, other.labels, other.stage);
  }
};

struct Measured {
  std::map<std::int64_t, std::map<Column, std::vector<double>>> values;  ///< by run; one value a domain
  std::map<Column, std::string> titles;
};

Result<Measured> measured_values(Database& database, const std::string& where, std::int64_t study) {
  Measured out;
  std::set<std::string> stages;
  const auto status = database.each(
      "SELECT run.number, run_stage.name, metric_name.name, json_remove(" + std::string(joined_labels) +
          ", '$.domain'), metric_summary.last "
          "FROM run JOIN run_stage ON run_stage.run = run.number JOIN stage ON stage.key = run_stage.stage "
          "JOIN metric_summary ON metric_summary.stage = stage.key JOIN metric_name ON metric_name.key = metric_summary.name "
          "JOIN label ON label.key = metric_summary.label WHERE run_stage.chosen = 1 AND stage.verb IN " +
          std::string(measuring_verbs) + where,
      {study}, [&](const Query& row) {
        const Column column{row.text(1), row.text(2), row.text(3)};
        stages.insert(column.stage);
        out.values[row.integer(0)][column].push_back(row.null(4) ? std::numeric_limits<double>::quiet_NaN() : row.real(4));
        out.titles[column];
      });
  if (!status) return pass(status);
  for (auto& [column, title] : out.titles) {
    title = (stages.size() > 1 ? column.stage + "." : std::string()) + metric_title(column.metric, labels_of(column.labels));
  }
  return out;
}

}  // namespace

Result<std::string> runs_text(Registry& registry, const std::string& study_filter, Format format) {
  auto& database = registry.connection().database;
  // Not possible on a read-only file, and then not worth an error.
  (void)registry.reap_dead_attempts();
  StudyInfo study;
  if (!study_filter.empty()) {
    const auto found = find_study(database, study_filter);
    if (!found) return pass(found);
    study = *found;
  }
  const std::string where = study.key != 0 ? " AND run.study = ?1" : " AND ?1 = 0";
  const auto measured = measured_values(database, where, study.key);
  if (!measured) return pass(measured);

  std::map<std::int64_t, std::string> notes;  // by run
  std::vector<std::pair<std::int64_t, std::int64_t>> running;
  if (auto status = database.each(
          "SELECT DISTINCT run_stage.run, run_stage.stage FROM attempt JOIN run_stage ON run_stage.stage = attempt.stage "
          "WHERE attempt.state = 'running'",
          {}, [&](const Query& row) { running.emplace_back(row.integer(0), row.integer(1)); });
      !status) {
    return pass(status);
  }
  for (const auto& [run, stage] : running) {
    const auto note = stale_note(database, stage);
    if (!note) return pass(note);
    if (!note->empty()) notes[run] = *note;
  }

  std::vector<std::string> header = {"run", "id", "study", "arm", "seed", "state"};
  for (const auto& [column, title] : measured->titles) header.push_back(title);
  header.insert(header.end(), {"age", "note"});
  Table table(header);
  const auto now = now_milliseconds();
  const auto status = database.each(
      "SELECT run.number, run.id, v_runs.study, run.arm, run.seed, v_runs.state, run.created FROM run JOIN v_runs ON v_runs.run "
      "= run.number "
      "WHERE 1" +
          where + " ORDER BY run.number",
      {study.key}, [&](const Query& row) {
        const auto run = row.integer(0);
        const auto id = row.text(1);
        // The end of a ULID is random, its start is the time: the end tells runs apart.
        Cell short_id = Cell::of_text(id);
        short_id.text = id.size() > 6 ? id.substr(id.size() - 6) : id;
        std::vector<Cell> cells = {Cell::of_integer(run),
                                   short_id,
                                   Cell::of_text(row.text(2)),
                                   Cell::of_text(row.text(3)),
                                   Cell::of_integer(row.integer(4)),
                                   Cell::of_text(row.text(5))};
        const auto values = measured->values.find(run);
        for (const auto& [column, title] : measured->titles) {
          if (values == measured->values.end() || values->second.count(column) == 0) {
            cells.push_back(Cell::empty());
            continue;
          }
          const double value = macro_mean(column.metric, values->second.at(column));
          cells.push_back(Cell::of_number(value, fmt::format("{:.5g}", value)));
        }
        const double age = static_cast<double>(now - row.integer(6)) / 1000;
        Cell age_cell = Cell::of_number(age);
        age_cell.text = ago(age);
        cells.push_back(age_cell);
        const auto note = notes.find(run);
        cells.push_back(note == notes.end() ? Cell::empty() : Cell::of_text(note->second));
        table.add(std::move(cells));
      });
  if (!status) return pass(status);
  if (format == Format::table || format == Format::markdown) {
    if (table.empty()) return std::string("no runs yet: `moiety run RECIPE` starts some\n");
    table.drop_empty_columns();
  }
  return table.render(format);
}

Result<std::string> logs_text(Registry& registry, const std::string& run, int lines) {
  auto& database = registry.connection().database;
  const auto found = find_run(database, run);
  if (!found) return pass(found);
  std::string out;
  const auto status = database.each(
      "SELECT run_stage.title, attempt.number, attempt.state, attempt.log_path, attempt.stderr_tail FROM run_stage "
      "JOIN attempt ON attempt.stage = run_stage.stage WHERE run_stage.run = ? ORDER BY run_stage.position, attempt.number",
      {found->number}, [&](const Query& row) {
        const auto path = row.text(3);
        out += fmt::format("{}== stage {}, attempt {} ({}): {}\n", out.empty() ? "" : "\n", printable(row.text(0)),
                           row.integer(1), row.text(2), path.empty() ? "no log file" : printable(path));
        const auto tail = path.empty() ? std::nullopt : last_lines(path, lines);
        if (tail) {
          for (const auto& line : *tail) out += printable(line) + "\n";
          return;
        }
        if (!path.empty()) out += "(the file is gone or not on this host)\n";
        if (row.text(4).empty()) return;
        out += "(last lines, as the registry keeps them)\n";
        for (const auto& line : split(row.text(4), '\n')) out += printable(line) + "\n";
      });
  if (!status) return pass(status);
  if (out.empty()) return fmt::format("run {} has no attempts yet, so no logs\n", found->number);
  return out;
}

}  // namespace moiety::registry
