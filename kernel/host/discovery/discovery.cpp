#include "kernel/host/discovery/discovery.h"

#include <cstdlib>
#include <map>
#include <utility>

#include "kernel/host/discovery/probe.h"
#include "kernel/host/json_fields.h"
#include "kernel/host/run/interrupts.h"

namespace moiety::host {
namespace {

using nlohmann::json;

/// What the worker's answers depend on besides the plugin files: the worker itself, and which libraries the loader gives it
/// (ldconfig rewrites its cache whenever a package brings or removes one).
json surroundings(const std::string& worker) {
  const auto identity = [](const FileIdentity& file) { return json{file.path, file.size, file.inode, file.mtime_ns}; };
  const char* library_path = std::getenv("LD_LIBRARY_PATH");
  return {{"worker", identity(FileIdentity::of(worker))},
          {"loader", identity(FileIdentity::of("/etc/ld.so.cache"))},
          {"library_path", library_path != nullptr ? library_path : ""}};
}

std::string component_name(const json& component) {
  const auto& version = member_at(component, "version");
  return text_at(component, "kind") + "/" + text_at(component, "name") + "@" +
         (version.is_number() ? std::to_string(version.get<int>()) : "1");
}

/// Takes shadowed components out of the files' answers.
std::vector<Shadowed> hide_shadowed(std::vector<json>* files) {
  std::vector<Shadowed> shadowed;
  std::map<std::string, std::string> first;
  for (auto& file : *files) {
    if (!file.contains("components") || !file["components"].is_array()) continue;
    json kept = json::array();
    for (auto& component : file["components"]) {
      if (!component.is_object()) continue;
      const auto name = component_name(component);
      const auto path = text_at(file, "path");
      const auto [entry, added] = first.emplace(name, path);
      if (added)
        kept.push_back(std::move(component));
      else
        shadowed.push_back({name, path, entry->second});
    }
    file["components"] = std::move(kept);
  }
  return shadowed;
}

}  // namespace

Result<Discovery> discover(const DiscoveryOptions& options) {
  auto search = find_plugin_files(options.order);
  if (auto status = check_named(search); !status) return pass(status);
  CatalogCache cache(options.store + "/catalog.json", surroundings(options.worker));
  Discovery found{json(), {}, std::move(search.folders), {}, {}, std::move(cache), 0};

  if (auto known = found.cache.describe(); known && !options.rescan) {
    found.describe = std::move(*known);
  } else {
    auto said = describe_worker(options.worker, options.describe_seconds);
    if (!said) return pass(said);
    found.describe = std::move(*said);
    found.cache.set_describe(found.describe);
  }

  std::vector<std::string> unknown;
  std::vector<std::size_t> places;
  found.files.resize(search.candidates.size());
  for (std::size_t i = 0; i < search.candidates.size(); ++i) {
    const auto& candidate = search.candidates[i];
    if (!candidate.problem.empty()) {
      found.files[i] = {{"path", candidate.identity.path}, {"error", candidate.problem}};
    } else if (auto known = found.cache.probed(candidate.identity); known && !options.rescan) {
      found.files[i] = std::move(*known);
    } else {
      unknown.push_back(candidate.identity.path);
      places.push_back(i);
    }
  }
  found.asked = static_cast<int>(unknown.size());
  auto said = probe_files(options.worker, unknown, options.probe_seconds);
  for (std::size_t i = 0; i < said.size(); ++i) {
    // An interrupted probe says nothing of the file.
    if (Interrupts::pending() == 0) found.cache.set_probed(search.candidates[places[i]].identity, said[i]);
    found.files[places[i]] = std::move(said[i]);
  }

  found.shadowed = hide_shadowed(&found.files);
  auto catalog = Catalog::from_json(found.describe, found.files);
  if (!catalog)
    return fail(ErrorKind::environment, options.worker + ": " + catalog.error().message,
                "build moiety and moiety-worker from one checkout");
  found.catalog = std::move(*catalog);
  found.catalog.folders.clear();
  for (const auto& folder : found.folders) found.catalog.folders.push_back(folder.path);
  return found;
}

}  // namespace moiety::host
