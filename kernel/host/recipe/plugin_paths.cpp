#include "kernel/host/recipe/plugin_paths.h"

#include <filesystem>

#include "kernel/host/recipe/reference.h"

namespace moiety::host {
namespace fs = std::filesystem;
namespace {

fs::path whole_path(const fs::path& path) {
  std::error_code error;
  const auto whole = fs::absolute(path, error);
  return (error ? path : whole).lexically_normal();
}

/// The folder at which a relative path starts that is written there.
fs::path start_of(const Place& place, const Sources& sources) {
  const int source = place.known() ? place.source : most_extends;
  return whole_path(sources[source].file ? sources[source].name : "none").parent_path();
}

std::string absolute_plugin_path(const Value& written, const Sources& sources) {
  return (start_of(written.place, sources) / written.text).lexically_normal().string();
}

}  // namespace

std::vector<std::string> plugin_paths(const Value& root, const Sources& sources) {
  std::vector<std::string> paths;
  const Value* written = root.find_path({"plugins", "path"});
  if (written == nullptr) return paths;
  const auto add = [&](const Value& value) {
    if (value.is_text() && !value.text.empty()) paths.push_back(absolute_plugin_path(value, sources));
  };
  add(*written);
  for (const auto& item : written->items) add(item);
  return paths;
}

std::vector<std::string> plugin_paths(const std::string& recipe, const std::vector<Override>& overrides) {
  Sources sources;
  Diagnostics ignored(sources);
  auto document = load_document(recipe, overrides, sources, ignored);
  if (!document) return {};
  expand_definitions(*document, ignored);
  return plugin_paths(document->root, sources);
}

std::string plugin_path_from_recipe(const Value& written, const Sources& sources) {
  if (!written.place.known() || written.place.source == most_extends || fs::path(written.text).is_absolute()) return written.text;
  const fs::path relative = fs::path(absolute_plugin_path(written, sources)).lexically_relative(start_of({}, sources));
  return relative.empty() ? absolute_plugin_path(written, sources) : relative.string();
}

}  // namespace moiety::host
