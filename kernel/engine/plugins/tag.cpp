#include "kernel/engine/plugins/tag.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/base/text.h"
#include "kernel/engine/plugins/elf.h"
#include "moiety/build_tag.h"

namespace moiety::engine {
namespace {

const std::string* find(const BuildTag& tag, const std::string& field) {
  const auto found = std::find_if(tag.begin(), tag.end(), [&](const auto& row) { return row.first == field; });
  return found == tag.end() ? nullptr : &found->second;
}

/// Twelve digits tell two hashes apart for a person, unless they happen to be equal there.
std::pair<std::string, std::string> shortened(const std::string& a, const std::string& b) {
  constexpr std::size_t length = 12;
  if (a.size() < 40 || b.size() < 40 || a.compare(0, length, b, 0, length) == 0) return {a, b};
  return {a.substr(0, length) + "…", b.substr(0, length) + "…"};
}

}  // namespace

const char* const rebuild_hint =
    "build it again with this Moiety: `cmake --build <build folder>` where the plugin is part of its tree, else configure the "
    "plugin's "
    "own project against this SDK and build";

BuildTag parse_tag(std::string_view text) {
  BuildTag tag;
  for (const std::string& line : split(text, '\n')) {
    if (line.empty()) continue;
    const auto equals = line.find('=');
    if (equals == std::string::npos)
      tag.emplace_back(printable(line), "");
    else
      tag.emplace_back(printable(line.substr(0, equals)), printable(line.substr(equals + 1)));
  }
  return tag;
}

const BuildTag& own_tag() {
  static const BuildTag tag = [] {
    BuildTag rows = parse_tag(MOIETY_BUILD_TAG);
    for (auto& [field, value] : rows) {
      if (field != "libtorch_build_id") continue;
      // What counts is the LibTorch that runs, which may have been upgraded since this was compiled.
      if (std::string running = loaded_build_id("libtorch_cpu.so"); !running.empty()) value = std::move(running);
    }
    return rows;
  }();
  return tag;
}

std::vector<TagDifference> tag_differences(const BuildTag& plugin, const BuildTag& worker) {
  const std::string absent = "(not given)";
  std::vector<TagDifference> differences;
  for (const auto& [field, ours] : worker) {
    const std::string* theirs = find(plugin, field);
    if (theirs == nullptr || *theirs != ours) differences.push_back({field, theirs == nullptr ? absent : *theirs, ours});
  }
  for (const auto& [field, theirs] : plugin) {
    if (find(worker, field) == nullptr) differences.push_back({field, theirs, absent});
  }
  return differences;
}

std::string difference_text(const std::vector<TagDifference>& differences) {
  std::vector<std::string> rows;
  for (const TagDifference& d : differences) {
    const auto [plugin, worker] = shortened(d.plugin, d.worker);
    rows.push_back(fmt::format("{}: plugin {}, worker {}", d.field, plugin, worker));
  }
  return join(rows, "; ");
}

}  // namespace moiety::engine
