#include "kernel/host/discovery/search.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "kernel/base/text.h"
#include "kernel/host/discovery/locate.h"

namespace moiety::host {
namespace fs = std::filesystem;
namespace {

constexpr const char* kNamed = "--plugin-path";
constexpr std::string_view kSuffix = ".moiety.so";

bool is_plugin_name(const std::string& name) {
  return name.size() > kSuffix.size() && name.compare(name.size() - kSuffix.size(), kSuffix.size(), kSuffix) == 0;
}

std::string reason(int error) { return std::generic_category().message(error); }

Candidate look_at(const std::string& path, const std::string& folder, std::pair<dev_t, ino_t>* key) {
  Candidate candidate{{path, 0, 0, 0}, folder, ""};
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    candidate.problem = reason(errno);
    return candidate;
  }
  *key = {info.st_dev, info.st_ino};
  candidate.identity = FileIdentity::of(path);
  if (!S_ISREG(info.st_mode))
    candidate.problem = "not a regular file";
  else if (::access(path.c_str(), R_OK) != 0)
    candidate.problem = reason(errno);
  return candidate;
}

}  // namespace

FileIdentity FileIdentity::of(const std::string& path) {
  FileIdentity identity{path, 0, 0, 0};
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return identity;
  identity.size = static_cast<std::uint64_t>(info.st_size);
  identity.inode = info.st_ino;
  identity.mtime_ns = static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
  return identity;
}

Search find_plugin_files(const std::vector<SearchPath>& order) {
  Search search;
  std::set<std::pair<dev_t, ino_t>> seen;
  std::set<std::string> seen_paths;
  const auto add = [&](const std::string& path, SearchedFolder* folder) {
    std::pair<dev_t, ino_t> key{0, 0};
    auto candidate = look_at(path, folder->path, &key);
    if (!seen_paths.insert(path).second) return;
    if (key.second != 0 && !seen.insert(key).second) return;
    ++folder->files;
    search.candidates.push_back(std::move(candidate));
  };
  for (const auto& entry : order) {
    SearchedFolder folder{absolute_path(entry.path), entry.origin, "", 0};
    std::error_code error;
    if (is_plugin_name(folder.path) && !fs::is_directory(folder.path, error)) {
      add(folder.path, &folder);
      search.folders.push_back(std::move(folder));
      continue;
    }
    std::vector<std::string> names;
    for (auto item = fs::directory_iterator(folder.path, error); !error && item != fs::directory_iterator();
         item.increment(error)) {
      auto name = item->path().filename().string();
      if (is_plugin_name(name)) names.push_back(std::move(name));
    }
    if (error) folder.problem = error.message();
    std::sort(names.begin(), names.end());
    for (const auto& name : names) add(folder.path + "/" + name, &folder);
    search.folders.push_back(std::move(folder));
  }
  return search;
}

Status check_named(const Search& search) {
  for (const auto& folder : search.folders) {
    if (folder.origin != kNamed) continue;
    std::error_code error;
    const auto status = fs::status(folder.path, error);
    std::string problem = folder.problem;
    if (problem.empty() && !fs::exists(status)) problem = error.message();
    if (problem.empty()) continue;
    return fail(ErrorKind::usage, std::string(kNamed) + " " + printable(folder.path) + ": " + problem,
                "name a folder that holds *.moiety.so files, or one such file");
  }
  return {};
}

std::vector<SearchPath> search_order(const std::vector<std::string>& given,
                                     const std::vector<std::string>& trusted_recipe_paths) {
  std::vector<SearchPath> order;
  const auto add_list = [&order](const std::string& list, const char* origin) {
    for (const auto& path : split(list, ':')) {
      if (!path.empty()) order.push_back({path, origin});
    }
  };
  for (const auto& list : given) add_list(list, kNamed);
  if (const char* list = std::getenv("MOIETY_PLUGIN_PATH"); list != nullptr) add_list(list, "MOIETY_PLUGIN_PATH");
  for (const auto& path : trusted_recipe_paths) order.push_back({path, "the recipe's plugins.path"});
  const auto shipped = shipped_plugin_folders();
  for (std::size_t i = 0; i < shipped.size(); ++i) order.push_back({shipped[i], i == 0 ? "beside moiety" : "install folder"});
  return order;
}

}  // namespace moiety::host
