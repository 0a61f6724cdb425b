#include "kernel/host/discovery/locate.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace moiety::host {
namespace fs = std::filesystem;
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Result<std::string> find_program(const char* environment_name, const char* name) {
  const std::string given = variable(environment_name);
  const std::string path = absolute_path(given.empty() ? program_folder() + "/" + name : given);
  std::error_code error;
  if (fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0) return path;
  if (!given.empty())
    return fail(ErrorKind::environment, std::string(environment_name) + " names " + path + ", which is no program");
  return fail(ErrorKind::environment, std::string(name) + " is not beside this program (" + path + ")",
              std::string("build it, or say where it is: ") + environment_name + "=/path/to/" + name);
}

}  // namespace

std::string absolute_path(const std::string& path) {
  std::error_code error;
  const auto whole = fs::absolute(path, error);
  return error ? path : whole.lexically_normal().string();
}

std::string program_folder() {
  std::error_code error;
  const auto self = fs::read_symlink("/proc/self/exe", error);
  return error ? "." : self.parent_path().string();
}

Result<std::string> find_worker() { return find_program("MOIETY_WORKER", "moiety-worker"); }
Result<std::string> find_data_program() { return find_program("MOIETY_DATA", "moiety-data"); }

Result<std::string> find_recipes_folder() {
  std::vector<std::string> tried;
  if (const auto given = variable("MOIETY_RECIPES"); !given.empty())
    tried = {absolute_path(given)};
  else
    tried = {absolute_path(program_folder() + "/../share/moiety/recipes"),
             absolute_path(program_folder() + "/" + MOIETY_RECIPES_FROM_PROGRAM)};
  std::error_code error;
  std::string text;
  for (const auto& folder : tried) {
    if (fs::is_directory(folder, error)) return folder;
    text += (text.empty() ? "" : ", ") + folder;
  }
  return fail(ErrorKind::environment, "the recipes folder is missing (looked for " + text + ")",
              "say where it is: MOIETY_RECIPES=/path/to/recipes");
}

std::vector<std::string> shipped_plugin_folders() {
  std::vector<std::string> folders = {absolute_path(program_folder() + "/../lib/moiety")};
  if (absolute_path(MOIETY_INSTALLED_PLUGINS) != folders[0]) folders.push_back(absolute_path(MOIETY_INSTALLED_PLUGINS));
  return folders;
}

std::string registry_path(const std::string& given) {
  if (!given.empty()) return absolute_path(given);
  const auto from_environment = variable("MOIETY_DB");
  return absolute_path(from_environment.empty() ? "moiety.db" : from_environment);
}

std::string store_path(const std::string& given) {
  if (!given.empty()) return absolute_path(given);
  if (const auto value = variable("MOIETY_STORE"); !value.empty()) return absolute_path(value);
  if (const auto value = variable("XDG_CACHE_HOME"); !value.empty()) return absolute_path(value + "/moiety");
  const auto home = variable("HOME");
  return absolute_path((home.empty() ? "." : home) + "/.cache/moiety");
}

}  // namespace moiety::host
