// `moiety db check`: is the registry whole, and does the store have what it names.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <vector>

#include "kernel/base/hash.h"
#include "kernel/base/text.h"
#include "kernel/host/command/command.h"
#include "kernel/host/discovery/locate.h"
#include "registry/connection.h"
#include "registry/registry.h"

namespace moiety::host {
namespace {

struct Artifact {
  std::string path, sha256;
  std::int64_t bytes = 0;
};

/// What is wrong with the file, or nothing.
std::string problem_of(const Artifact& artifact, bool contents) {
  std::error_code error;
  const auto size = std::filesystem::file_size(artifact.path, error);
  if (error) return "is missing";
  if (static_cast<std::int64_t>(size) != artifact.bytes) return fmt::format("has {} bytes instead of {}", size, artifact.bytes);
  if (!contents || artifact.sha256.empty()) return "";
  const auto hash = sha256_of_file(artifact.path);
  if (!hash) return "cannot be read";
  return *hash == artifact.sha256 ? "" : "has another content than was recorded";
}

int check(const Arguments& arguments) {
  const auto path = registry_path(arguments.value("registry"));
  auto opened = registry::Registry::open(path, registry::OpenMode::update);
  if (!opened) return complain(opened.error());
  for (const auto& notice : opened->notices()) say(notice);
  if (auto status = opened->reap_dead_attempts(); !status) return complain(status.error());
  auto database = registry::Database::open(path, registry::Database::Access::read_only);
  if (!database) return complain(database.error());

  std::vector<std::string> problems;
  const auto note = [&](const registry::Query& row) {
    if (row.text(0) != "ok") problems.push_back(row.text(0));
  };
  if (auto status = database->each("PRAGMA integrity_check", {}, note); !status) return complain(status.error());
  if (auto status = database->each(
          "PRAGMA foreign_key_check", {},
          [&](const auto& row) { problems.push_back("a row of " + row.text(0) + " refers to nothing in " + row.text(2)); });
      !status)
    return complain(status.error());
  std::vector<Artifact> artifacts;
  if (auto status = database->each("SELECT path, sha256, bytes FROM artifact ORDER BY path", {},
                                   [&](const auto& row) {
                                     artifacts.push_back({row.text(0), row.text(1), row.integer(2)});
                                   });
      !status)
    return complain(status.error());
  for (const auto& artifact : artifacts) {
    if (const auto problem = problem_of(artifact, arguments.has("contents")); !problem.empty())
      problems.push_back(artifact.path + " " + problem);
  }
  const auto count = [&](const char* sql) {
    const auto n = database->integer(sql);
    return n && *n ? **n : 0;
  };
  for (const auto& problem : problems) std::fputs((printable(problem) + "\n").c_str(), stdout);
  const auto text = fmt::format(
      "{}: {} studies, {} runs, {} stages, {} metric rows, {} files; {}\n", path, count("SELECT count(*) FROM study"),
      count("SELECT count(*) FROM run"), count("SELECT count(*) FROM stage"), count("SELECT count(*) FROM metric"),
      artifacts.size(),
      problems.empty() ? "no problem" : fmt::format("{} problem{}", problems.size(), problems.size() == 1 ? "" : "s"));
  std::fputs(text.c_str(), stdout);
  return problems.empty() ? 0 : static_cast<int>(ErrorKind::failed);
}

}  // namespace

std::vector<Subcommand> database_commands() {
  return {{"db check",
           "",
           "is the registry whole, and does the store have what it names",
           "Exit code 1 when there is a problem. Attempts of processes that are gone are marked as interrupted.",
           "moiety db check",
           {{"contents", "", "compare the files' contents with their hashes too"}},
           0,
           0,
           check}};
}

}  // namespace moiety::host
