#include "kernel/host/discovery/cache.h"

#include <algorithm>
#include <filesystem>

#include "kernel/base/files.h"
#include "kernel/host/json_fields.h"

namespace moiety::host {
namespace fs = std::filesystem;
using nlohmann::json;
namespace {

constexpr int kFormat = 1;

json to_json(const FileIdentity& file) {
  return {{"path", file.path}, {"size", file.size}, {"inode", file.inode}, {"mtime_ns", file.mtime_ns}};
}

bool matches(const json& stored, const FileIdentity& file) {
  return member_at(stored, "path") == file.path && member_at(stored, "size") == file.size &&
         member_at(stored, "inode") == file.inode && member_at(stored, "mtime_ns") == file.mtime_ns;
}

}  // namespace

CatalogCache::CatalogCache(std::string path, json surroundings) : path_(std::move(path)), surroundings_(std::move(surroundings)) {
  const auto text = read_file(path_);
  if (!text) return;
  const json stored = json::parse(*text, nullptr, false);
  if (member_at(stored, "format") != kFormat || member_at(stored, "surroundings") != surroundings_) return;
  if (const auto& said = member_at(stored, "describe"); said.is_object()) describe_ = said;
  const auto& files = member_at(stored, "files");
  if (!files.is_array()) return;
  for (const auto& entry : files) {
    const auto& file = member_at(entry, "file");
    const auto& said = member_at(entry, "said");
    const auto plugin = text_at(file, "path");
    if (plugin.empty() || text_at(said, "path") != plugin) continue;
    const FileIdentity identity = FileIdentity::of(plugin);
    // Entries of files that changed or went are dropped here, so the cache never grows without end.
    if (matches(file, identity)) files_.emplace_back(identity, said);
  }
}

std::optional<json> CatalogCache::describe() const { return describe_.is_null() ? std::nullopt : std::optional<json>(describe_); }

void CatalogCache::set_describe(json said) {
  describe_ = std::move(said);
  changed_ = true;
}

std::optional<json> CatalogCache::probed(const FileIdentity& file) const {
  for (const auto& [identity, said] : files_) {
    if (identity == file) return said;
  }
  return std::nullopt;
}

void CatalogCache::set_probed(const FileIdentity& file, json said) {
  files_.erase(std::remove_if(files_.begin(), files_.end(), [&](const auto& entry) { return entry.first.path == file.path; }),
               files_.end());
  files_.emplace_back(file, std::move(said));
  changed_ = true;
}

void CatalogCache::save(bool make_folder) {
  if (!changed_) return;
  const auto folder = fs::path(path_).parent_path().string();
  std::error_code error;
  if (!fs::is_directory(folder, error) && (!make_folder || !make_folders(folder))) return;
  json files = json::array();
  for (const auto& [identity, said] : files_) files.push_back({{"file", to_json(identity)}, {"said", said}});
  const json whole = {{"format", kFormat}, {"surroundings", surroundings_}, {"describe", describe_}, {"files", files}};
  if (write_file(path_, whole.dump(1, ' ', false, json::error_handler_t::replace) + "\n")) changed_ = false;
}

}  // namespace moiety::host
