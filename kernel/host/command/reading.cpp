// Commands that read the registry and nothing else: no worker, no plugin, no store.
#include <cstdio>
#include <functional>
#include <utility>

#include "kernel/base/text.h"
#include "kernel/host/command/command.h"
#include "kernel/host/discovery/locate.h"
#include "registry/registry.h"
#include "registry/report.h"

namespace moiety::host {
namespace {

using registry::Format;

std::vector<OptionSpec> format_options() {
  return {{"json", "", "as JSON"}, {"csv", "", "as CSV"}, {"md", "", "as a Markdown table"}};
}

std::vector<OptionSpec> with_format(std::vector<OptionSpec> options) {
  for (auto& option : format_options()) options.push_back(std::move(option));
  return options;
}

Result<Format> format_of(const Arguments& arguments) {
  std::vector<std::string> given;
  Format format = Format::table;
  for (const auto& [name, wanted] : {std::pair("json", Format::json), {"csv", Format::csv}, {"md", Format::markdown}}) {
    if (!arguments.has(name)) continue;
    given.push_back(std::string("--") + name);
    format = wanted;
  }
  if (given.size() < 2) return format;
  return fail(ErrorKind::usage, "one format only, not " + join(given, " and "));
}

/// The registry that is there, never a new one. `mend`: for reports that mark attempts whose process is gone, where the file may
/// be written.
Result<registry::Registry> open_to_read(const Arguments& arguments, bool mend) {
  const auto path = registry_path(arguments.value("registry"));
  auto opened = registry::Registry::open(path, mend ? registry::OpenMode::update : registry::OpenMode::read_only);
  if (!opened && mend && opened.error().kind == ErrorKind::environment)
    opened = registry::Registry::open(path, registry::OpenMode::read_only);
  if (opened)
    for (const auto& notice : opened->notices()) say(notice);
  return opened;
}

using Text = std::function<Result<std::string>(registry::Registry&, Format)>;

int print(const Arguments& arguments, const Text& text, bool mend = false) {
  const auto format = format_of(arguments);
  if (!format) return complain(format.error());
  auto opened = open_to_read(arguments, mend);
  if (!opened) return complain(opened.error());
  const auto answer = text(*opened, *format);
  if (!answer) return complain(answer.error());
  std::fputs(answer->c_str(), stdout);
  if (!answer->empty() && answer->back() != '\n') std::fputs("\n", stdout);
  return 0;
}

int runs(const Arguments& arguments) {
  return print(
      arguments, [&](auto& r, Format format) { return registry::runs_text(r, arguments.value("study"), format); }, true);
}

int show(const Arguments& arguments) {
  return print(
      arguments, [&](auto& r, Format format) { return registry::show_text(r, arguments.words()[0], format); }, true);
}

int logs(const Arguments& arguments) {
  const auto lines = arguments.number("lines", 40, 0);
  if (!lines) return complain(lines.error());
  return print(arguments, [&](auto& r, Format) { return registry::logs_text(r, arguments.words()[0], *lines); });
}

int sql(const Arguments& arguments) {
  const auto format = format_of(arguments);
  if (!format) return complain(format.error());
  auto opened = open_to_read(arguments, false);
  if (!opened) return complain(opened.error());
  // Not collected before it is printed: an answer may be larger than memory.
  const auto status = registry::sql_rows(*opened, arguments.words()[0], *format, [](const std::string& text) {
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::ferror(stdout) == 0;
  });
  return status ? 0 : complain(status.error());
}

int compare(const Arguments& arguments) {
  registry::CompareOptions options;
  options.study = arguments.value("study");
  options.arms = arguments.words();
  options.metrics = arguments.values("metric");
  return print(arguments, [&](auto& r, Format format) { return registry::compare_text(r, options, format); });
}

int claims(const Arguments& arguments) {
  return print(arguments, [&](auto& r, Format format) { return registry::claims_text(r, arguments.value("study"), format); });
}

const OptionSpec kStudy = {"study", "STUDY", "name or id of a study (default: the newest)"};

}  // namespace

std::vector<Subcommand> reading_commands() {
  const std::string which_run = "RUN is a run's number, its id, or the beginning of its id (`moiety runs` lists them).";
  std::vector<Subcommand> commands;
  commands.push_back({"runs", "", "lists runs, the newest last", "", "moiety runs",
                      with_format({{"study", "STUDY", "only this study (name or id)"}}), 0, 0, runs});
  commands.push_back({"show", "RUN", "everything of one run: stages, parameters, metrics, cost, errors", which_run,
                      "moiety show 3", with_format({}), 1, 1, show});
  commands.push_back({"logs",
                      "RUN",
                      "the last lines of the log of each attempt of a run",
                      which_run,
                      "moiety logs 3",
                      {{"lines", "N", "last lines of each log (default: 40)"}},
                      1,
                      1,
                      logs});
  commands.push_back({"compare", "[ARM...]", "arms: mean ± sd, and paired differences to the baseline", "", "moiety compare",
                      with_format({kStudy, {"metric", "NAME", "only this metric; may be given several times", true}}), 0, 100,
                      compare});
  commands.push_back(
      {"claims", "", "claims of a study and their verdicts", "", "moiety claims", with_format({kStudy}), 0, 0, claims});
  commands.push_back({"sql", "QUERY", "asks the registry, read-only", "Views: v_runs, v_final, v_arms, v_claims, v_params.",
                      "moiety sql \"SELECT arm, metric, mean, sd, n FROM v_arms\"", with_format({}), 1, 1, sql});
  return commands;
}

}  // namespace moiety::host
