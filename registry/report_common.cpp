#include "registry/report_common.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "kernel/base/text.h"
#include "registry/table.h"

namespace moiety::registry {

namespace {

constexpr std::int64_t stale_after_milliseconds = 60'000;

StudyInfo study_of(const Query& row) {
  StudyInfo out;
  out.key = row.integer(0);
  out.id = row.text(1);
  out.name = row.text(2);
  out.baseline = row.text(3);
  out.state = row.text(4);
  out.recipe_path = row.text(5);
  out.raw_text = row.text(6);
  out.confidence = row.real(7);
  out.seeds = static_cast<int>(row.integer(8));
  return out;
}

bool all_digits(const std::string& text) {
  return !text.empty() && text.size() < 18 && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string upper(std::string text) {
  for (auto& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

}  // namespace

const char* const measuring_verbs = "('evaluate', 'probe')";

const char* const joined_labels =
    "CASE WHEN run_stage.labels = '{}' THEN label.labels WHEN label.labels = '{}' THEN run_stage.labels "
    "ELSE substr(run_stage.labels, 1, length(run_stage.labels) - 1) || ',' || substr(label.labels, 2) END";

Result<StudyInfo> find_study(Database& database, const std::string& filter) {
  const std::string columns = "SELECT key, id, name, baseline, state, recipe_path, raw_text, confidence, seeds FROM study ";
  std::vector<StudyInfo> found;
  const auto collect = [&](const Query& row) { found.push_back(study_of(row)); };
  if (auto status = database.each(columns + "WHERE ?1 = '' OR name = ?1 ORDER BY key DESC LIMIT 1", {filter}, collect); !status) {
    return pass(status);
  }
  if (found.empty() && !filter.empty()) {
    if (auto status = database.each(columns + "WHERE substr(id, 1, length(?1)) = ?1 LIMIT 2", {upper(filter)}, collect);
        !status) {
      return pass(status);
    }
  }
  if (found.size() == 1) return found.front();
  if (found.size() > 1) {
    return fail(ErrorKind::usage, fmt::format("several studies have an id that starts with `{}`", printable(filter)),
                "give more of the id");
  }
  std::vector<std::string> names;
  if (auto status = database.each("SELECT DISTINCT name FROM study", {}, [&](const Query& row) { names.push_back(row.text(0)); });
      !status) {
    return pass(status);
  }
  if (names.empty())
    return fail(ErrorKind::usage, fmt::format("{} holds no study yet", database.path()), "start one with `moiety run RECIPE`");
  const auto near = did_you_mean(filter, names);
  return fail(ErrorKind::usage, fmt::format("no study is called `{}`, and no id starts so", printable(filter)),
              near.empty() ? "`moiety runs` lists them" : near);
}

Result<RunInfo> find_run(Database& database, const std::string& name) {
  const std::string columns =
      "SELECT run.number, run.study, run.created, run.id, run.arm, v_runs.state, run.config_hash, run.unit, run.seed "
      "FROM run JOIN v_runs ON v_runs.run = run.number ";
  std::vector<RunInfo> found;
  const auto collect = [&](const Query& row) {
    found.push_back({row.integer(0), row.integer(1), row.integer(2), row.text(3), row.text(4), row.text(5), row.text(6),
                     row.text(7), static_cast<int>(row.integer(8))});
  };
  if (all_digits(name)) {
    if (auto status = database.each(columns + "WHERE run.number = ?", {static_cast<std::int64_t>(std::stoll(name))}, collect);
        !status) {
      return pass(status);
    }
  }
  const std::string id = upper(name);
  if (found.empty() && !id.empty()) {
    if (auto status = database.each(
            columns + "WHERE substr(run.id, 1, length(?1)) = ?1 OR substr(run.id, -length(?1)) = ?1 LIMIT 2", {id}, collect);
        !status) {
      return pass(status);
    }
  }
  if (found.size() == 1) return found.front();
  if (found.size() > 1)
    return fail(ErrorKind::usage, fmt::format("several runs have an id like `{}`", printable(name)), "give the run's number");
  return fail(ErrorKind::usage, fmt::format("there is no run `{}` in {}", printable(name), database.path()),
              "`moiety runs` lists them");
}

double macro_mean(const std::string& metric, const std::vector<double>& values) {
  static const std::string perplexity = "perplexity";
  const bool logarithmic =
      metric.size() >= perplexity.size() && metric.compare(metric.size() - perplexity.size(), perplexity.size(), perplexity) == 0;
  double sum = 0;
  for (const double value : values) sum += logarithmic ? std::log(value) : value;
  const double mean = sum / static_cast<double>(values.size());
  return logarithmic ? std::exp(mean) : mean;
}

std::string metric_title(const std::string& metric, const Labels& labels) {
  if (labels.empty()) return metric;
  std::vector<std::string> parts;
  for (const auto& [key, value] : labels) parts.push_back(fmt::format("{}={}", key, value));
  return fmt::format("{} [{}]", metric, join(parts, ", "));
}

Result<std::string> stale_note(Database& database, std::int64_t stage) {
  std::string note;
  const auto status =
      database.each("SELECT host, heartbeat FROM attempt WHERE stage = ? AND state = 'running' ORDER BY key DESC LIMIT 1",
                    {stage}, [&](const Query& row) {
                      const auto silent = now_milliseconds() - row.integer(1);
                      if (row.text(0) == host_name() || silent < stale_after_milliseconds) return;
                      note = fmt::format("stale (last seen {} on {})", ago(static_cast<double>(silent) / 1000), row.text(0));
                    });
  if (!status) return pass(status);
  return note;
}

std::optional<std::vector<std::string>> last_lines(const std::string& path, int lines) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return std::nullopt;
  // From the end, a block at a time: a log may be large and its tail is all that is wanted.
  constexpr std::streamoff block = 65'536;
  std::streamoff at = file.tellg();
  std::string text;
  const auto enough = [&] { return std::count(text.begin(), text.end(), '\n') > lines; };
  while (at > 0 && !enough() && text.size() < std::size_t{64} * block) {
    const std::streamoff from = std::max<std::streamoff>(0, at - block);
    std::string part(static_cast<std::size_t>(at - from), '\0');
    file.seekg(from);
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    text = part + text;
    at = from;
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  std::vector<std::string> out;
  if (!text.empty()) out = split(text, '\n');
  if (static_cast<int>(out.size()) > lines) out.erase(out.begin(), out.end() - lines);
  return out;
}

}  // namespace moiety::registry
