// `moiety show`: one run for people.
#include <fmt/format.h>
#include <string.h>

#include "kernel/base/text.h"
#include "registry/report.h"
#include "registry/run_reader.h"
#include "registry/table.h"

namespace moiety::registry {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t tail_lines = 20;

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "-" : value.dump();
}

Cell number_cell(const Json& value, const std::string& shown = {}) {
  if (value.is_null()) return Cell::empty();
  if (value.is_number_integer() && shown.empty()) return Cell::of_integer(value.get<std::int64_t>());
  Cell cell{shown.empty() ? (value.is_number() ? number(value.get<double>()) : text_of(value)) : shown, value, true};
  return cell;
}

std::string memory_text(const Json& bytes) {
  return bytes.is_null() ? std::string() : fmt::format("{:.0f} MiB", bytes.get<double>() / (1024.0 * 1024.0));
}

std::string seconds_text(const Json& seconds) { return seconds.is_number() ? duration(seconds.get<double>()) : std::string(); }

/// How one attempt failed: what a user needs to go on from.
void print_failure(Document& out, const Json& attempt, const std::string& recipe) {
  std::string how;
  if (attempt["signal"].is_number() && attempt["signal"].get<int>() != 0) {
    const int signal = attempt["signal"].get<int>();
    how = fmt::format(" by signal {} ({})", signal, strsignal(signal));
  } else if (attempt["exit_code"].is_number()) {
    how = fmt::format(", exit code {}", attempt["exit_code"].get<int>());
  }
  out.line("");
  out.line(fmt::format("stage {}, attempt {}: {}{}", text_of(attempt["stage"]), attempt["attempt"].get<int>(),
                       text_of(attempt["state"]), how));
  if (const auto component = attempt["component"].get<std::string>(); !component.empty()) {
    const auto function = attempt["function"].get<std::string>();
    out.line(fmt::format("  in {}{}", component, function.empty() ? std::string() : ", function " + function));
  }
  if (const auto error = attempt["error"].get<std::string>(); !error.empty()) out.line("  error: " + error);
  if (attempt["recipe_line"].get<int>() > 0 && !recipe.empty()) {
    out.line(fmt::format("  recipe: {}:{}: [stage.{}]", recipe, attempt["recipe_line"].get<int>(), text_of(attempt["stage"])));
  }
  if (const auto log = attempt["log"].get<std::string>(); !log.empty()) out.line("  log: " + log);
  const auto tail = attempt["stderr_tail"].get<std::string>();
  if (tail.empty()) return;
  auto lines = split(tail, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (lines.size() > tail_lines) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(tail_lines));
  out.line("  last lines of its standard error:");
  for (const auto& line : lines) out.line("    " + line);
}

Document document_of(const Json& run) {
  Document out;
  out.line(fmt::format("run {} · {} · arm {} · seed {} · {}", run["run"].get<std::int64_t>(), text_of(run["id"]),
                       text_of(run["arm"]), run["seed"].get<int>(), text_of(run["state"])));
  out.line(fmt::format("study {} · {} · recipe {}", text_of(run["study"]), text_of(run["study_id"]), text_of(run["recipe"])));
  if (const auto commit = run["git_commit"].get<std::string>(); !commit.empty()) {
    out.line(fmt::format("git {}{}", commit, run["git_dirty"].get<bool>() ? " with uncommitted changes" : ""));
  }

  out.line("");
  Table stages(
      {"stage", "verb", "state", "seed", "attempts", "wall", "cpu", "peak memory", "tokens", "flops", "identity", "note"});
  for (const auto& stage : run["stages"]) {
    Json last;
    for (const auto& attempt : run["attempts"]) {
      if (attempt["stage"] == stage["stage"]) last = attempt;
    }
    const auto of_last = [&](const char* key) { return last.is_null() ? Json() : last[key]; };
    const auto flops = of_last("flops");
    stages.add(
        {Cell::of_text(text_of(stage["stage"])), Cell::of_text(text_of(stage["verb"])), Cell::of_text(text_of(stage["state"])),
         Cell::of_text(fmt::format("{}{}", stage["seed"].get<std::int64_t>(), stage["pinned"].get<bool>() ? " pinned" : "")),
         Cell::of_integer(stage["attempts"].get<std::int64_t>()), Cell::of_text(seconds_text(of_last("wall_seconds"))),
         Cell::of_text(seconds_text(of_last("cpu_seconds"))), Cell::of_text(memory_text(of_last("peak_memory"))),
         number_cell(of_last("tokens")), number_cell(flops, flops.is_number() ? fmt::format("{:.3g}", flops.get<double>()) : ""),
         Cell::of_text(text_of(stage["id"]).substr(0, 12)), Cell::of_text(text_of(stage["note"]))});
  }
  stages.drop_empty_columns();
  out.table(std::move(stages));

  for (const auto& attempt : run["attempts"]) {
    const auto state = text_of(attempt["state"]);
    if (state == "failed" || state == "diverged" || state == "interrupted") print_failure(out, attempt, text_of(run["recipe"]));
  }

  if (!run["differences"].empty()) {
    out.line("");
    out.line(fmt::format("parameters that differ from arm {}:", text_of(run["baseline"])));
    Table table({"stage", "parameter", "here", text_of(run["baseline"])});
    for (const auto& row : run["differences"]) {
      table.add({Cell::of_text(text_of(row["stage"])), Cell::of_text(text_of(row["parameter"])),
                 Cell::of_text(text_of(row["value"])), Cell::of_text(text_of(row["baseline"]))});
    }
    out.table(std::move(table));
  }
  if (!run["metrics"].empty()) {
    out.line("");
    Table table({"stage", "metric", "step", "value", "unit"});
    for (const auto& row : run["metrics"]) {
      Labels labels;
      for (const auto& [key, value] : row["labels"].items()) labels[key] = text_of(value);
      const auto value = row["value"];
      table.add({Cell::of_text(text_of(row["stage"])), Cell::of_text(metric_title(text_of(row["metric"]), labels)),
                 Cell::of_integer(row["step"].get<std::int64_t>()),
                 number_cell(value, value.is_number() ? fmt::format("{:.6g}", value.get<double>()) : ""),
                 Cell::of_text(text_of(row["unit"]))});
    }
    table.drop_empty_columns();
    out.table(std::move(table));
  }
  for (const auto& row : run["curves"]) {
    const auto shown = [](const Json& value) {
      return value.is_number() ? fmt::format("{:.4g}", value.get<double>()) : text_of(value);
    };
    out.line("");
    out.line(fmt::format("{} {}: {} to {} at step {}", text_of(row["stage"]), text_of(row["metric"]), shown(row["first"]),
                         shown(row["last"]), row["last_step"].get<std::int64_t>()));
    out.line("  " + text_of(row["curve"]));
  }
  if (!run["plugins"].empty() || !run["attempts"].empty()) out.line("");
  if (!run["attempts"].empty()) {
    Table builds({"stage", "attempt", "host", "device", "threads", "cpu", "LibTorch", "LibTorch build", "worker build"});
    for (const auto& row : run["attempts"]) {
      builds.add({Cell::of_text(text_of(row["stage"])), number_cell(row["attempt"]), Cell::of_text(text_of(row["host"])),
                  Cell::of_text(text_of(row["device"])), number_cell(row["threads"]), Cell::of_text(text_of(row["cpu"])),
                  Cell::of_text(text_of(row["torch_version"])), Cell::of_text(text_of(row["torch_build_id"]).substr(0, 12)),
                  Cell::of_text(text_of(row["worker_build_id"]).substr(0, 12))});
    }
    builds.drop_empty_columns();
    out.table(std::move(builds));
  }
  if (!run["plugins"].empty()) {
    Table plugins({"stage", "slot", "component", "build", "file"});
    for (const auto& row : run["plugins"]) {
      plugins.add({Cell::of_text(text_of(row["stage"])), Cell::of_text(text_of(row["slot"])),
                   Cell::of_text(text_of(row["component"])), Cell::of_text(text_of(row["build_id"]).substr(0, 12)),
                   Cell::of_text(text_of(row["file"]))});
    }
    out.line("");
    out.table(std::move(plugins));
  }
  if (!run["events"].empty()) out.line("");
  for (const auto& row : run["events"]) {
    out.line(fmt::format("{} {} {} ({}): {}", text_of(row["time"]), text_of(row["level"]), text_of(row["stage"]),
                         text_of(row["source"]), text_of(row["message"])));
  }
  return out;
}

}  // namespace

Result<std::string> show_text(Registry& registry, const std::string& run, Format format) {
  auto& database = registry.connection().database;
  // Not possible on a read-only file, and then not worth an error.
  (void)registry.reap_dead_attempts();
  const auto found = find_run(database, run);
  if (!found) return pass(found);
  const auto json = read_run(database, *found);
  if (!json) return pass(json);
  return format == Format::json ? json_text(*json) : document_of(*json).render(format);
}

}  // namespace moiety::registry
