#include "kernel/host/recipe/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <vector>

#include "kernel/base/text.h"
#include "kernel/host/recipe/parse.h"

namespace moiety::host {
namespace {

/// What a reference stands for: a value, nothing because an error was told, or `later` for one that another pass replaces.
struct Found {
  std::optional<Value> value;
  bool later = false;
};
using Resolver = std::function<Found(const std::string& name, const Place& place)>;

std::string pasted(const Value& value) {
  switch (value.type) {
    case Value::Type::text:
      return value.text;
    case Value::Type::boolean:
      return value.boolean ? "true" : "false";
    case Value::Type::integer:
      return std::to_string(value.integer);
    case Value::Type::number:
      return number(value.number);
    default:
      return {};
  }
}

// References to references can grow without bound.
constexpr int most_replacements = 10000;
constexpr std::size_t most_copied = 16 << 20;

std::size_t weight(const Value& value) {
  std::size_t bytes = sizeof(Value) + value.text.size();
  for (const auto& item : value.items) bytes += weight(item);
  for (const auto& [key, member] : value.members) bytes += key.size() + weight(member.value);
  return bytes;
}

/// Tells an error about a reference and drops what would follow from it.
void refuse(Diagnostics& diagnostics, const Place& place, std::string message, std::string suggestion = {}) {
  diagnostics.error(place, std::move(message), std::move(suggestion));
  diagnostics.spoil(place);
}

bool pastes(const Value& value) {
  return value.is(Value::Type::text) || value.is(Value::Type::boolean) || value.is(Value::Type::integer) ||
         value.is(Value::Type::number);
}

/// Replaces the references of one text. True when something was replaced.
bool expand_text(Value& value, const Resolver& resolve, Diagnostics& diagnostics) {
  const std::string text = value.text;
  const Place place = value.place;
  std::string out;
  bool changed = false;
  for (std::size_t i = 0; i < text.size();) {
    if (text.compare(i, 2, "${") != 0) {
      out.push_back(text[i++]);
      continue;
    }
    const std::size_t end = text.find('}', i);
    if (end == std::string::npos) {
      refuse(diagnostics, place, "`${` without its `}`");
      return false;
    }
    const std::string written = text.substr(i, end + 1 - i);
    Found found = resolve(text.substr(i + 2, end - i - 2), place);
    if (!found.value) {
      if (!found.later) {
        diagnostics.spoil(place);
        return false;
      }
      out += written;
    } else if (i == 0 && end + 1 == text.size()) {
      value = std::move(*found.value);
      value.place = place;
      return true;
    } else if (!pastes(*found.value)) {
      refuse(diagnostics, place,
             fmt::format("{} is {}; inside other text only text, numbers and true or false can stand", written,
                         type_name(found.value->type)));
      return false;
    } else {
      out += pasted(*found.value);
      changed = true;
    }
    i = end + 1;
    if (out.size() > most_text_bytes) {
      refuse(diagnostics, place, fmt::format("text is longer than {} bytes once its references are replaced", most_text_bytes));
      return false;
    }
  }
  value.text = out;
  return changed;
}

class Definitions {
 public:
  Definitions(Document& document, Diagnostics& diagnostics) : root_(document.root), diagnostics_(diagnostics) {}

  void run() {
    Value* define = root_.find("define");
    if (define != nullptr && !define->is_table()) {
      diagnostics_.error(root_.members["define"].key, "[define] is a table of names and their values");
      define = nullptr;
    }
    if (define != nullptr) table_ = *define;
    check_names();
    for (auto& [key, member] : root_.members) {
      table_name_ = key;
      if (key != "define") walk(member.value);
    }
    for (const auto& [key, member] : table_.members) {
      if (used_.count(key) == 0 && Document::own(member.key)) {
        diagnostics_.error(member.key, fmt::format("`{}` is defined but `${{{}}}` stands nowhere", key, key));
      }
    }
    root_.members.erase("define");
  }

 private:
  /// `${name}` has one meaning, whatever stands in the recipe.
  void check_names() {
    const Value nothing = Value::table();
    const Value* axes = root_.find("axes");
    const Value* measures = root_.find("measure");
    const std::vector<std::pair<const Value*, const char*>> tables = {{&table_, "a definition"},
                                                                      {axes != nullptr ? axes : &nothing, "an axis"},
                                                                      {measures != nullptr ? measures : &nothing, "a measure"}};
    const Value* stages = root_.find("stage");
    for (std::size_t i = 0; i < tables.size(); ++i) {
      for (const auto& [key, member] : tables[i].first->members) {
        std::string other;
        if (root_.find(key) != nullptr || key == "stage" || key == "model") {
          other = "a table of the recipe";
        } else if (stages != nullptr && stages->find(key) != nullptr) {
          other = "a stage";
        }
        for (std::size_t j = 0; j < i && other.empty(); ++j) {
          if (tables[j].first->find(key) != nullptr) other = tables[j].second;
        }
        if (other.empty()) continue;
        diagnostics_.error(member.key,
                           fmt::format("`{}` is also the name of {}, so `${{{}}}` would have two meanings", key, other, key));
      }
    }
  }

  bool is_later(const std::string& name) const {
    const Value* axes = root_.find("axes");
    return name == "stage" || name == "model" || (name != "skip" && axes != nullptr && axes->find(name) != nullptr);
  }

  void walk(Value& value) {
    if (++depth_ > 2 * most_nesting) {
      diagnostics_.error(value.place, "definitions are nested too deeply");
    } else if (value.is_text()) {
      if (value.text.find("${") != std::string::npos) {
        expand_text(
            value, [this](const std::string& name, const Place& place) { return resolve(name, place); }, diagnostics_);
      }
    } else {
      for (auto& item : value.items) walk(item);
      for (auto& [key, member] : value.members) walk(member.value);
    }
    --depth_;
  }

  Found resolve(const std::string& name, const Place& place) {
    if (name.rfind("env:", 0) == 0) return environment(name.substr(4), place);
    const auto path = split_path(name);
    if (path.empty()) {
      refuse(diagnostics_, place, fmt::format("`${{{}}}` is not a reference: write ${{name}} or ${{stage.NAME.key}}", name));
      return {};
    }
    if (is_later(path[0])) {
      const bool axis = path[0] != "stage" && path[0] != "model";
      const bool varies = table_name_ == "stage" || table_name_ == "model" || table_name_ == "arm" || table_name_ == "defaults";
      if (table_name_ == "axes") {
        refuse(diagnostics_, place, fmt::format("`${{{}}}`: values of axes mention neither stages nor axes", name));
        return {};
      }
      if (axis && !varies) {
        refuse(diagnostics_, place, fmt::format("`${{{}}}` is an axis: only stages and models vary along it", name));
        return {};
      }
      return {std::nullopt, true};
    }
    const auto defined = table_.members.find(path[0]);
    if (defined == table_.members.end()) return unknown(name, path[0], place);
    used_.insert(path[0]);
    if (std::find(open_.begin(), open_.end(), path[0]) != open_.end()) {
      diagnostics_.error(defined->second.key, fmt::format("the definition of `{}` goes in a circle", path[0]));
      return {};
    }
    if (++replaced_ > most_replacements) {
      if (replaced_ == most_replacements + 1)
        refuse(diagnostics_, place, fmt::format("more than {} references", most_replacements));
      return {};
    }
    open_.push_back(path[0]);
    Value value = defined->second.value;
    const std::size_t before = diagnostics_.spoilt();
    walk(value);
    open_.pop_back();
    if (diagnostics_.spoilt() != before) return {};
    copied_ += weight(value);
    if (copied_ > most_copied) {
      if (!told_)
        refuse(diagnostics_, place, fmt::format("definitions grow to more than {} bytes once they are replaced", most_copied));
      told_ = true;
      return {};
    }
    const Value* part = value.find_path({path.begin() + 1, path.end()});
    if (part == nullptr) {
      refuse(diagnostics_, place, fmt::format("`${{{}}}`: the definition `{}` has no such part", name, path[0]));
      return {};
    }
    return {*part, false};
  }

  Found unknown(const std::string& name, const std::string& first, const Place& place) {
    if (is_stage(first)) return result_of(name, place);
    if (const Value* choices = root_.find("choose"); choices != nullptr && choices->find(first) != nullptr) {
      diagnostics_.spoil(place);  // the table itself was refused
      return {};
    }
    std::vector<std::string> names;
    for (const auto& [key, member] : table_.members) names.push_back(key);
    for (const char* table : {"axes", "stage"}) {
      const Value* named = root_.find(table);
      if (named == nullptr || (std::string(table) == "stage" && name == first)) continue;
      for (const auto& [key, member] : named->members) names.push_back(key);
    }
    refuse(diagnostics_, place, fmt::format("`${{{}}}`: nothing named `{}` is defined", name, first), did_you_mean(first, names));
    return {};
  }

  bool is_stage(const std::string& name) const {
    const auto has = [&](const Value& root) {
      const Value* stages = root.find("stage");
      return stages != nullptr && stages->find(name) != nullptr;
    };
    const Value* arms = root_.find("arm");
    return has(root_) || (arms != nullptr && std::any_of(arms->members.begin(), arms->members.end(),
                                                         [&](const auto& arm) { return has(arm.second.value); }));
  }

  /// A result of a stage stays as it is: it is known when that stage has run.
  Found result_of(const std::string& name, const Place& place) {
    if (table_name_ != "stage" && table_name_ != "arm" && table_name_ != "defaults") {
      refuse(diagnostics_, place, fmt::format("`${{{}}}` is a result of a stage: only stages can wait for it", name));
    } else if (split_path(name).size() != 2) {
      refuse(diagnostics_, place, fmt::format("`${{{}}}`: a result of a stage is written ${{NAME.result}}", name));
    } else {
      return {std::nullopt, true};
    }
    return {};
  }

  Found environment(const std::string& variable, const Place& place) {
    if (variable.rfind("MOIETY_", 0) != 0) {
      refuse(diagnostics_, place,
             fmt::format("`${{env:{}}}`: only variables MOIETY_… can be read, since their values are recorded", variable));
      return {};
    }
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr) {
      refuse(diagnostics_, place, fmt::format("`${{env:{}}}`: the environment has no {}", variable, variable));
      return {};
    }
    auto parsed = parse_argument(value, place);
    return {parsed ? *parsed : Value::of(std::string(value)), false};
  }

  // Definitions of definitions can grow without bound.
  Value& root_;
  Diagnostics& diagnostics_;
  Value table_ = Value::table();
  std::set<std::string> used_;
  std::vector<std::string> open_;
  int depth_ = 0, replaced_ = 0;
  std::size_t copied_ = 0;
  bool told_ = false;
  std::string table_name_;  ///< that is walked through
};

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
      refuse(diagnostics_, place, fmt::format("`${{{}}}`: nothing is written at {}", name, name),
             path.empty() ? "" : did_you_mean(path.back(), names));
      return {};
    }
    if (std::find(open_.begin(), open_.end(), name) != open_.end() || open_.size() > most_nesting) {
      refuse(diagnostics_, place, fmt::format("`${{{}}}` goes in a circle", name));
      for (const auto& open : places_) diagnostics_.spoil(open);
      return {};
    }
    if (++replaced_ > most_replacements) {
      refuse(diagnostics_, place, fmt::format("more than {} references", most_replacements));
      return {};
    }
    open_.push_back(name);
    places_.push_back(place);
    Value value = *target;
    walk(value);
    value.reference.clear();
    open_.pop_back();
    places_.pop_back();
    copied_ += weight(value);
    if (copied_ > most_copied) {
      refuse(diagnostics_, place, fmt::format("references grow to more than {} bytes once they are replaced", most_copied));
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

void expand_definitions(Document& document, Diagnostics& diagnostics) { Definitions(document, diagnostics).run(); }

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
    if (!part) refuse(diagnostics, place, fmt::format("`${{{}}}`: an element of the axis `{}` has no such part", name, path[0]));
    return {std::move(part), false};
  };
  if (expand_text(value, resolve, diagnostics)) value.reference = reference;
}

}  // namespace moiety::host
