// [define]: names and their values, put where `${name}` stands.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <vector>

#include "kernel/base/text.h"
#include "kernel/host/recipe/expand.h"
#include "kernel/host/recipe/parse.h"
#include "kernel/host/recipe/reference.h"

namespace moiety::host {
namespace {

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
    std::vector<std::pair<const Value*, const char*>> tables = {{&table_, "a definition"}};
    for (const auto& [section, what] :
         {std::pair("axes", "an axis"), std::pair("choose", "a choice"), std::pair("measure", "a measure")}) {
      const Value* table = root_.find(section);
      tables.emplace_back(table != nullptr ? table : &nothing, what);
    }
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
    const auto names = [&](const char* section) {
      const Value* table = root_.find(section);
      return table != nullptr && table->find(name) != nullptr;
    };
    return name == "stage" || name == "model" || (name != "skip" && names("axes")) || names("choose");
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
      refuse_reference(diagnostics_, place,
                       fmt::format("`${{{}}}` is not a reference: write ${{name}} or ${{stage.NAME.key}}", name));
      return {};
    }
    if (is_later(path[0])) {
      const bool axis = path[0] != "stage" && path[0] != "model";
      const bool varies = table_name_ == "stage" || table_name_ == "model" || table_name_ == "arm" || table_name_ == "defaults";
      if (table_name_ == "axes" || table_name_ == "choose") {
        refuse_reference(diagnostics_, place,
                         fmt::format("`${{{}}}`: values of axes and choices mention neither stages nor axes", name));
        return {};
      }
      if (axis && !varies) {
        refuse_reference(diagnostics_, place,
                         fmt::format("`${{{}}}` is an axis or a choice: only stages and models vary along it", name));
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
        refuse_reference(diagnostics_, place, fmt::format("more than {} references", most_replacements));
      return {};
    }
    open_.push_back(path[0]);
    Value value = defined->second.value;
    const std::size_t before = diagnostics_.spoilt();
    walk(value);
    open_.pop_back();
    if (diagnostics_.spoilt() != before) return {};
    copied_ += size_in_bytes(value);
    if (copied_ > most_copied) {
      if (!told_)
        refuse_reference(diagnostics_, place,
                         fmt::format("definitions grow to more than {} bytes once they are replaced", most_copied));
      told_ = true;
      return {};
    }
    const Value* part = value.find_path({path.begin() + 1, path.end()});
    if (part == nullptr) {
      refuse_reference(diagnostics_, place, fmt::format("`${{{}}}`: the definition `{}` has no such part", name, path[0]));
      return {};
    }
    return {*part, false};
  }

  Found unknown(const std::string& name, const std::string& first, const Place& place) {
    if (is_stage(first)) return result_of(name, place);
    std::vector<std::string> names;
    for (const auto& [key, member] : table_.members) names.push_back(key);
    for (const char* table : {"axes", "choose", "stage"}) {
      const Value* named = root_.find(table);
      if (named == nullptr || (std::string(table) == "stage" && name == first)) continue;
      for (const auto& [key, member] : named->members) names.push_back(key);
    }
    refuse_reference(diagnostics_, place, fmt::format("`${{{}}}`: nothing named `{}` is defined", name, first),
                     did_you_mean(first, names));
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
      refuse_reference(diagnostics_, place, fmt::format("`${{{}}}` is a result of a stage: only stages can wait for it", name));
    } else if (split_path(name).size() != 2) {
      refuse_reference(diagnostics_, place, fmt::format("`${{{}}}`: a result of a stage is written ${{NAME.result}}", name));
    } else {
      return {std::nullopt, true};
    }
    return {};
  }

  Found environment(const std::string& variable, const Place& place) {
    if (variable.rfind("MOIETY_", 0) != 0) {
      refuse_reference(
          diagnostics_, place,
          fmt::format("`${{env:{}}}`: only variables MOIETY_… can be read, since their values are recorded", variable));
      return {};
    }
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr) {
      refuse_reference(diagnostics_, place, fmt::format("`${{env:{}}}`: the environment has no {}", variable, variable));
      return {};
    }
    auto parsed = parse_argument(value, place);
    return {parsed ? *parsed : Value::of(std::string(value)), false};
  }

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

}  // namespace

void expand_definitions(Document& document, Diagnostics& diagnostics) { Definitions(document, diagnostics).run(); }

}  // namespace moiety::host
