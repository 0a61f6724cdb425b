#include "kernel/data/packages/packages.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "kernel/base/files.h"
#include "kernel/base/text.h"
#include "kernel/data/packages/interruption.h"
#include "kernel/data/packages/process.h"
#include "kernel/data/text/clean.h"

namespace moiety::data {
namespace fs = std::filesystem;
namespace {

using Arguments = std::vector<std::string>;

std::map<std::string, Package> packages_in(const std::string& folder) {
  std::map<std::string, Package> found;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator(); entry.increment(error)) {
    auto package = parse_package_file_name(entry->path().string());
    if (!package.name.empty() && (found.count(package.name) == 0 || found[package.name].version < package.version))
      found[package.name] = std::move(package);
  }
  return found;
}

Status ignore_output(std::string_view) { return {}; }

/// The first error line that apt printed, without its "E: "; the later ones only follow from it.
std::string first_error(const std::string& errors) {
  for (const auto& line : split(errors, '\n')) {
    if (line.substr(0, 3) == "E: ") return printable(line.substr(3));
  }
  return "no reason given";
}

std::vector<std::string> unknown_packages(const std::string& errors) {
  constexpr std::string_view mark = "Unable to locate package ";
  std::vector<std::string> names;
  for (const auto& line : split(errors, '\n')) {
    if (const auto at = line.find(mark); at != std::string::npos) names.push_back(printable(trim(line.substr(at + mark.size()))));
  }
  return names;
}

Arguments apt(const Arguments& options, const Arguments& command) {
  Arguments line = {"apt-get", "-qq", "-o", "APT::Sandbox::User=root"};
  line.insert(line.end(), options.begin(), options.end());
  line.insert(line.end(), command.begin(), command.end());
  return line;
}

/// Options under which apt keeps its lists in the store and needs no lock of the system.
Result<Arguments> private_lists(const std::string& store) {
  const std::string lists = store + "/apt/lists";
  const std::string cache = store + "/apt/cache";
  for (const auto& folder : {lists + "/partial", cache + "/archives/partial"}) {
    if (auto status = make_folders(folder); !status) return pass(status);
  }
  return Arguments{"-o", "Dir::State::lists=" + lists, "-o", "Dir::Cache=" + cache,
                   "-o", "Debug::NoLocking=1",         "-o", "Acquire::Languages=none"};
}

Error not_obtainable(const std::vector<std::string>& missing, const std::string& folder, const std::string& errors) {
  constexpr std::uintmax_t enough = 1 << 20;
  std::error_code ignored;
  const auto space = fs::space(folder, ignored);
  if (!ignored && space.available < enough)
    return {ErrorKind::environment, fmt::format("cannot download the Debian packages {}: the disk is full", join(missing, ", ")),
            "free some space, then run the same command again: " + folder};
  const auto unknown = unknown_packages(errors);
  const auto& blamed = unknown.empty() ? missing : unknown;
  return {ErrorKind::environment,
          fmt::format("cannot download the Debian package{} {}: {}", blamed.size() > 1 ? "s" : "", join(blamed, ", "),
                      first_error(errors)),
          fmt::format("check the network, or type: cd {} && apt-get download {}", folder, join(missing, " "))};
}

/// Downloads into `folder`: with the system's package lists, else with private ones.
Status download(const std::vector<std::string>& missing, const std::string& folder, const std::string& store,
                Progress& progress) {
  const std::string packages = store + "/packages";
  Arguments command = {"download"};
  command.insert(command.end(), missing.begin(), missing.end());
  const auto first = run_program(apt({}, command), ignore_output, folder);
  if (!first) return pass(first);
  if (first->exit_code == 0) return {};
  progress.step("fetching package lists into the store, as the system's do not serve");
  const auto options = private_lists(store);
  if (!options) return pass(options);
  // A source that does not answer is only a warning for apt, unless told so; the others may do, though.
  const auto update = run_program(apt(*options, {"-o", "APT::Update::Error-Mode=any", "update"}), ignore_output);
  if (!update) return pass(update);
  const auto second = run_program(apt(*options, command), ignore_output, folder);
  if (!second) return pass(second);
  if (second->exit_code == 0) return {};
  return tl::unexpected(not_obtainable(missing, packages, update->exit_code == 0 ? second->errors : update->errors));
}

/// Moves every .deb from `from` to `to`.
Status keep_packages(const std::string& from, const std::string& to) {
  std::error_code error;
  for (const auto& [name, package] : packages_in(from)) {
    fs::rename(package.path, to + "/" + fs::path(package.path).filename().string(), error);
    if (error)
      return fail(ErrorKind::environment, fmt::format("cannot keep the package {} in {}: {}", name, to, error.message()));
  }
  return {};
}

}  // namespace

Package parse_package_file_name(const std::string& path) {
  const fs::path file(path);
  const auto parts = split(file.stem().string(), '_');
  if (file.extension() != ".deb" || parts.size() != 3 || parts[0].empty()) return {};
  Package package{parts[0], parts[1], path};
  if (const auto colon = package.version.find("%3a"); colon != std::string::npos) package.version.replace(colon, 3, ":");
  return package;
}

Result<std::map<std::string, Package>> obtain_packages(const std::vector<std::string>& names, const std::string& store,
                                                       Progress& progress) {
  const std::string folder = store + "/packages";
  if (auto status = make_folders(folder); !status) return pass(status);
  auto found = packages_in(folder);
  std::vector<std::string> missing;
  for (const auto& name : names) {
    if (found.count(name) == 0) missing.push_back(name);
  }
  if (missing.empty()) return found;

  progress.step(fmt::format("downloading {} Debian packages", missing.size()));
  const auto place = GuardedFolder::make(folder + "/.download");
  if (!place) return pass(place);
  // apt writes under the final name from the first byte on: nothing is kept unless it said that all is well.
  if (auto status = download(missing, place->path(), store, progress); !status) return pass(status);
  if (auto status = keep_packages(place->path(), folder); !status) return pass(status);
  found = packages_in(folder);
  for (const auto& name : missing) {
    if (found.count(name) == 0) return tl::unexpected(not_obtainable({name}, folder, "E: apt-get left no file for it"));
  }
  return found;
}

}  // namespace moiety::data
