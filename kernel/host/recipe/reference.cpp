#include "kernel/host/recipe/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "kernel/base/text.h"
#include "kernel/host/recipe/expand.h"
#include "kernel/host/recipe/parse.h"

namespace moiety::host {
namespace {

class StageReferences {
 public:
  StageReferences(Value& root, Diagnostics& diagnostics) : root_(root), written_(root), diagnostics_(diagnostics) {}

  void run() {
    for (const char* table : {"stage", "model"}) {
      if (Value* value = root_.find(table)) walk(*value);
    }
  }

 private:
  void walk(Value& value) {
    if (value.is_text()) {
      const std::string text = value.text;
      if (text.find("${") == std::string::npos) return;
      if (expand_text(
              value, [this](const std::string& name, const Place& place) { return resolve(name, place); }, diagnostics_)) {
        value.reference = text;
      }
      return;
    }
    for (auto& item : value.items) walk(item);
    for (auto& [key, member] : value.members) walk(member.value);
  }

  Found resolve(const std::string& name, const Place& place) {
    const auto path = split_path(name);
    // What else is left are axes: they come after.
    if (!path.empty() && path[0] != "stage" && path[0] != "model") return {std::nullopt, true};
    const Value* target = written_.find_path(path);
    if (target == nullptr) {
      const Value* beside = path.size() > 1 ? written_.find_path({path.begin(), path.end() - 1}) : nullptr;
      std::vector<std::string> names;
      if (beside != nullptr) {
        for (const auto& [key, member] : beside->members) names.push_back(key);
      }
      refuse_reference(diagnostics_, place, fmt::format("`${{{}}}`: nothing is written at {}", name, name),
                       path.empty() ? "" : did_you_mean(path.back(), names));
      return {};
    }
    if (std::find(open_.begin(), open_.end(), name) != open_.end() || open_.size() > most_nesting) {
      refuse_reference(diagnostics_, place, fmt::format("`${{{}}}` goes in a circle", name));
      for (const auto& open : places_) diagnostics_.spoil(open);
      return {};
    }
    if (++replaced_ > most_replacements) {
      refuse_reference(diagnostics_, place, fmt::format("more than {} references", most_replacements));
      return {};
    }
    open_.push_back(name);
    places_.push_back(place);
    Value value = *target;
    walk(value);
    value.reference.clear();
    open_.pop_back();
    places_.pop_back();
    copied_ += size_in_bytes(value);
    if (copied_ > most_copied) {
      refuse_reference(diagnostics_, place,
                       fmt::format("references grow to more than {} bytes once they are replaced", most_copied));
      return {};
    }
    return {std::move(value), false};
  }

  Value& root_;
  const Value written_;
  Diagnostics& diagnostics_;
  std::vector<std::string> open_;
  std::vector<Place> places_;
  int replaced_ = 0;
  std::size_t copied_ = 0;
};

}  // namespace

void expand_stage_references(Value& root, Diagnostics& diagnostics) { StageReferences(root, diagnostics).run(); }

std::vector<std::pair<std::string, std::string>> results_in(const Value& value, const Value& stages) {
  std::vector<std::pair<std::string, std::string>> found;
  if (!value.is_text()) return found;
  for (auto at = value.text.find("${"); at != std::string::npos; at = value.text.find("${", at + 2)) {
    const auto end = value.text.find('}', at);
    if (end == std::string::npos) break;
    const auto path = split_path(value.text.substr(at + 2, end - at - 2));
    if (path.size() == 2 && stages.find(path[0]) != nullptr) found.emplace_back(path[0], path[1]);
  }
  return found;
}

void expand_axis_references(Value& value, const std::function<bool(const std::string&)>& is_known,
                            const std::function<std::optional<Value>(const std::vector<std::string>&)>& part_of,
                            Diagnostics& diagnostics) {
  if (!value.is_text()) {
    for (auto& item : value.items) expand_axis_references(item, is_known, part_of, diagnostics);
    for (auto& [key, member] : value.members) expand_axis_references(member.value, is_known, part_of, diagnostics);
    return;
  }
  if (value.text.find("${") == std::string::npos) return;
  const std::string reference = value.reference.empty() ? value.text : value.reference;
  const Resolver resolve = [&](const std::string& name, const Place& place) -> Found {
    const auto path = split_path(name);
    if (path.empty() || !is_known(path[0])) return {std::nullopt, true};
    auto part = part_of(path);
    if (!part)
      refuse_reference(diagnostics, place, fmt::format("`${{{}}}`: an element of the axis `{}` has no such part", name, path[0]));
    return {std::move(part), false};
  };
  if (expand_text(value, resolve, diagnostics)) value.reference = reference;
}

}  // namespace moiety::host
