#include "kernel/host/recipe/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "kernel/base/files.h"
#include "kernel/base/text.h"
#include "kernel/host/recipe/parse.h"

namespace moiety::host {
namespace {

class Loader {
 public:
  Loader(Sources& sources, Diagnostics& diagnostics) : sources_(sources), diagnostics_(diagnostics) {}

  std::optional<Value> load(const std::string& path, const Place& extended_from, std::string* raw_text) {
    const std::string canonical = canonical_path(path);
    if (std::find(chain_.begin(), chain_.end(), canonical) != chain_.end()) {
      diagnostics_.error(extended_from, fmt::format("`extends` goes in a circle: {} is its own ancestor", path));
      return std::nullopt;
    }
    if (static_cast<int>(chain_.size()) > most_extends) {
      diagnostics_.error(extended_from, fmt::format("`extends` is deeper than {} levels", most_extends));
      return std::nullopt;
    }
    const auto text = read_file(path);
    if (!text) {
      diagnostics_.error(extended_from, text.error().message, text.error().hint);
      return std::nullopt;
    }
    const int source = most_extends - static_cast<int>(chain_.size());
    chain_.push_back(canonical);
    sources_.put(source, path, *text, extended_from);
    if (raw_text != nullptr) *raw_text = *text;
    auto own = parse_toml(*text, source, diagnostics_);
    if (!own) return std::nullopt;
    return with_parent(std::move(*own), path);
  }

 private:
  static std::string canonical_path(const std::string& path) {
    std::error_code ignored;
    const auto canonical = std::filesystem::weakly_canonical(path, ignored);
    return ignored ? path : canonical.string();
  }

  std::optional<Value> with_parent(Value own, const std::string& path) {
    Value* recipe = own.find("recipe");
    const Value* extends = recipe != nullptr ? recipe->find("extends") : nullptr;
    const Value* unset = recipe != nullptr ? recipe->find("unset") : nullptr;
    if (extends == nullptr) {
      if (unset != nullptr)
        diagnostics_.error(recipe->members["unset"].key, "`unset` removes what a parent wrote, and this recipe extends none");
      if (recipe != nullptr) recipe->members.erase("unset");
      return own;
    }
    if (!extends->is_text()) {
      diagnostics_.error(extends->place,
                         "`extends` names one parent, not a list: two parents could set the same key and neither would win",
                         "extend one of them, and let that one extend the other");
      return std::nullopt;
    }
    const std::filesystem::path written = extends->text;
    if (written.is_absolute()) {
      diagnostics_.error(extends->place, "`extends` is a path relative to this file");
      return std::nullopt;
    }
    auto parent =
        load((std::filesystem::path(path).parent_path() / written).lexically_normal().string(), extends->place, nullptr);
    if (!parent) return std::nullopt;
    if (unset != nullptr) apply_unset(*parent, *unset);
    recipe->members.erase("extends");
    recipe->members.erase("unset");
    for (const auto& [key, member] : own.members) {
      auto found = parent->members.find(key);
      if (found == parent->members.end()) {
        parent->members.emplace(key, member);
      } else {
        merge(found->second.value, member.value);
      }
    }
    return parent;
  }

  void apply_unset(Value& parent, const Value& unset) {
    const std::vector<Value> single = {unset};
    for (const Value& item : unset.is(Value::Type::array) ? unset.items : single) {
      const auto path = item.is_text() ? split_path(item.text) : std::vector<std::string>{};
      if (path.empty()) {
        diagnostics_.error(item.place, "`unset` lists paths, as in [\"stage.tuned.from\"]");
      } else if (!remove_path(parent, path)) {
        diagnostics_.error(item.place, fmt::format("`unset`: nothing to remove at {}", item.text));
      }
    }
  }

  Sources& sources_;
  Diagnostics& diagnostics_;
  std::vector<std::string> chain_;
};

void apply(const Override& change, int position, Value& root, Sources& sources, Diagnostics& diagnostics) {
  const std::string option = change.unset ? "--unset" : "--set";
  const int source = sources.add(fmt::format("command line, {} {}", ordinal(position), option), option + " " + change.text);
  const int offset = static_cast<int>(option.size()) + 2;
  const std::size_t equals = change.unset ? std::string::npos : change.text.find('=');
  const std::string key = change.text.substr(0, equals);
  const Place key_place{source, 1, offset, static_cast<int>(std::max<std::size_t>(1, width(key)))};
  if (!change.unset && equals == std::string::npos) {
    diagnostics.error(key_place, "`--set` takes path=value, as in --set stage.tuned.batch=16");
    return;
  }
  const auto path = split_path(key);
  if (path.empty() || path.size() > static_cast<std::size_t>(most_nesting)) {
    diagnostics.error(key_place, fmt::format("`{}` is not a path of keys, as in stage.tuned.batch", key));
    return;
  }
  if (change.unset) {
    if (!remove_path(root, path)) diagnostics.error(key_place, fmt::format("`--unset`: nothing to remove at {}", key));
    return;
  }
  const std::string written = change.text.substr(equals + 1);
  const Place value_place{source, 1, offset + static_cast<int>(width(key)) + 1,
                          static_cast<int>(std::max<std::size_t>(1, width(written)))};
  auto value = parse_argument(written, value_place);
  if (!value) {
    diagnostics.error(value_place, "not a TOML value; text that begins with [, { or a quote must be complete");
    return;
  }
  // One patch with a single path, so that the merge rule of recipes holds here too.
  Value patch = std::move(*value);
  for (auto part = path.rbegin(); part != path.rend(); ++part) {
    Value outer = Value::table();
    outer.place = key_place;
    outer.set(*part, std::move(patch), key_place);
    patch = std::move(outer);
  }
  for (const auto& [name, member] : patch.members) {
    auto found = root.members.find(name);
    if (found == root.members.end()) {
      root.members.emplace(name, member);
    } else {
      merge(found->second.value, member.value);
    }
  }
}

}  // namespace

std::optional<Document> load_document(const std::string& path, const std::vector<Override>& overrides, Sources& sources,
                                      Diagnostics& diagnostics) {
  Document document;
  document.path = path;
  auto root = Loader(sources, diagnostics).load(path, {}, &document.raw_text);
  if (!root) return std::nullopt;
  document.root = std::move(*root);
  int sets = 0, unsets = 0;
  for (const auto& change : overrides) {
    apply(change, change.unset ? ++unsets : ++sets, document.root, sources, diagnostics);
  }
  return document;
}

}  // namespace moiety::host
