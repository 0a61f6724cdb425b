// [axes] and [choose] of a recipe.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "kernel/base/text.h"
#include "kernel/host/recipe/axes.h"
#include "kernel/host/recipe/document.h"

namespace moiety::host {
namespace {

constexpr std::size_t most_labels = 1000;
constexpr std::size_t longest_label = 80;
constexpr const char* choose_form =
    "[choose] is a table of choices, as in learning_rate = { among = [3e-4, 1e-3], by = \"highest tuned.valid_accuracy\" }";

/// "1..64" → its ends.
std::optional<std::pair<std::int64_t, std::int64_t>> as_range(const std::string& text) {
  const auto points = text.find("..");
  if (points == std::string::npos) return std::nullopt;
  const auto whole = [](const std::string& part) -> std::optional<std::int64_t> {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (part.empty() || error != std::errc() || end != part.data() + part.size()) return std::nullopt;
    return value;
  };
  const auto low = whole(text.substr(0, points)), high = whole(text.substr(points + 2));
  if (!low || !high) return std::nullopt;
  return std::make_pair(*low, *high);
}

std::string scalar_label(const Value& value) {
  switch (value.type) {
    case Value::Type::text:
      return value.text;
    case Value::Type::integer:
      return std::to_string(value.integer);
    case Value::Type::number:
      return canonical_label(number(value.number));
    case Value::Type::boolean:
      return value.boolean ? "true" : "false";
    default:
      return {};
  }
}

}  // namespace

class AxesReader {
 public:
  AxesReader(const Value& root, const std::vector<std::string>& arm_names, Diagnostics& diagnostics)
      : root_(root), arm_names_(arm_names), diagnostics_(diagnostics) {}

  Axes read() {
    const Value* skip = nullptr;
    for (const char* section : {"axes", "choose"}) {
      const auto found = root_.members.find(section);
      if (found == root_.members.end()) continue;
      const Value& table = found->second.value;
      choosing_ = section == std::string("choose");
      if (!table.is_table()) {
        diagnostics_.error(found->second.key, choosing_ ? choose_form : "[axes] is a table of axes, as in k = [4, 8, 16]");
        continue;
      }
      for (const auto& [name, member] : table.members) {
        if (choosing_)
          read_choice(name, member);
        else if (name != "skip")
          read_axis(name, member.key, member.value, {});
      }
      if (!choosing_) skip = table.find("skip");
      check_size(found->second.key);
    }
    check_labels();
    if (skip != nullptr) read_skip(*skip);
    return std::move(axes_);
  }

 private:
  /// "an axis", "axis `k`"; "a choice", "choice `learning_rate`".
  std::string what() const { return choosing_ ? "a choice" : "an axis"; }
  std::string what(const std::string& name) const { return fmt::format("{} `{}`", choosing_ ? "choice" : "axis", name); }

  bool can_be_named(const std::string& name, const Place& place) {
    const auto& recorded = recorded_axes();
    if (std::find(recorded.begin(), recorded.end(), name) != recorded.end()) {
      diagnostics_.error(place,
                         fmt::format("`{}` is an axis that measuring adds: {} of the recipe has another name", name, what()));
      return false;
    }
    if (toml_key(name) == name && name != "arm") return true;
    diagnostics_.error(place, fmt::format("`{}` cannot be the name of {}: letters, digits, `_` and `-`, not arm", name, what()));
    return false;
  }

  void read_axis(const std::string& name, const Place& place, const Value& written, std::optional<ChoiceRule> choice) {
    if (!can_be_named(name, place)) return;
    Axis axis{name, place, {}, std::move(choice)};
    if (written.is_text()) {
      if (!read_range(axis, written)) return;
    } else if (!written.is(Value::Type::array) || written.items.empty()) {
      diagnostics_.error(written.place, fmt::format("{} is a list of values, or a range as in \"1..64\"",
                                                    choosing_ ? "`among` of choice `" + name + "`" : what(name)));
      return;
    }
    for (const Value& item : written.items) {
      if (!read_element(axis, item)) return;
    }
    if (axis.elements.size() > most_labels) {
      diagnostics_.error(place,
                         fmt::format("{} has {} labels; at most {} are possible", what(name), axis.elements.size(), most_labels));
      return;
    }
    axes_.axes_.push_back(std::move(axis));
  }

  void read_choice(const std::string& name, const Member& member) {
    const Value& table = member.value;
    const Value* among = table.is_table() ? table.find("among") : nullptr;
    const Value* by = table.is_table() ? table.find("by") : nullptr;
    if (among == nullptr || by == nullptr || !by->is_text()) {
      diagnostics_.error(table.place, choose_form);
      return;
    }
    for (const auto& [key, other] : table.members) {
      if (key == "among" || key == "by") continue;
      diagnostics_.error(other.key, fmt::format("unknown key `{}` in choose.{}", key, name), did_you_mean(key, {"among", "by"}),
                         "keys: among, by");
      return;
    }
    auto rule = choice_rule(*by);
    if (!rule) {
      diagnostics_.error(by->place,
                         fmt::format("`by` in choose.{} is \"highest STAGE.METRIC\" or \"lowest STAGE.METRIC\"", name));
      return;
    }
    read_axis(name, member.key, *among, std::move(rule));
  }

  /// "highest tuned.valid_accuracy"
  static std::optional<ChoiceRule> choice_rule(const Value& by) {
    const auto words = split(by.text, ' ');
    if (words.size() != 2 || (words[0] != "highest" && words[0] != "lowest")) return std::nullopt;
    const auto parts = split(words[1], '.');
    if (parts.size() < 2 || parts[0].empty() || parts.back().empty()) return std::nullopt;
    return ChoiceRule{by.text, by.place, words[0] == "highest", parts[0], words[1].substr(parts[0].size() + 1)};
  }

  bool read_range(Axis& axis, const Value& written) {
    const auto range = as_range(written.text);
    if (!range || range->first > range->second ||
        static_cast<std::uint64_t>(range->second) - static_cast<std::uint64_t>(range->first) >= most_labels) {
      diagnostics_.error(written.place, fmt::format("{} is a list of values, or a range of at most {} numbers as in \"1..64\"",
                                                    what(axis.name), most_labels));
      return false;
    }
    for (auto n = range->first; n <= range->second; ++n) {
      Value item = Value::of(n);
      item.place = written.place;
      read_element(axis, item);
    }
    return true;
  }

  bool read_element(Axis& axis, const Value& item) {
    AxisElement element{"", item, item};
    if (item.is_table()) {
      const Value* label = item.find("label");
      const Value* use = item.find("use");
      if (label == nullptr && (use == nullptr || !use->is_text())) {
        diagnostics_.error(item.place, fmt::format("an element of {} that is a table needs `label` (or `use`)", what(axis.name)));
        return false;
      }
      element.label = label != nullptr ? scalar_label(*label) : use->text;
      element.value.members.erase("label");
      if (label == nullptr) element.parts.set("label", Value::of(element.label));
    } else {
      element.label = scalar_label(item);
    }
    if (element.label.empty() || element.label.size() > longest_label || printable(element.label) != element.label) {
      diagnostics_.error(item.place, fmt::format("a label of {} is a number or printable text of at most {} bytes",
                                                 what(axis.name), longest_label));
      return false;
    }
    if (axis.element(element.label) != nullptr) {
      diagnostics_.error(item.place, fmt::format("{} has the label `{}` twice", what(axis.name), element.label), "",
                         item.is_table() ? "`label` tells elements with one `use` apart" : "");
      return false;
    }
    axis.elements.push_back(std::move(element));
    return true;
  }

  /// A claim may say `domain=specialty`, where specialty is an axis.
  void check_labels() {
    for (const auto& axis : axes_.axes_) {
      for (const auto& element : axis.elements) {
        if (axes_.find(element.label) != nullptr) {
          diagnostics_.error(
              element.parts.place.known() ? element.parts.place : axis.place,
              fmt::format("`{}` is the name of an axis, so it cannot be a label of `{}`", element.label, axis.name));
        }
      }
    }
  }

  void check_size(const Place& place) {
    double all = 1;
    for (const auto& axis : axes_.axes_) all *= static_cast<double>(axis.elements.size());
    if (all <= 1e12) return;
    diagnostics_.error(place, fmt::format("the axes have {} combinations", number(all)));
    axes_.axes_.clear();
  }

  void read_skip(const Value& skip) {
    const std::vector<Value> single = {skip};
    for (const Value& item : skip.is(Value::Type::array) ? skip.items : single) {
      if (!item.is_table() || item.members.empty()) {
        diagnostics_.error(item.place, "`skip` in axes lists combinations to leave out, as in [{ arm = \"soft\", k = [2, 4] }]");
        continue;
      }
      read_rule(item);
    }
  }

  /// What an inherited rule says of arms, axes and labels that are gone is passed over.
  void read_rule(const Value& item) {
    Axes::Rule rule;
    bool applies = true;
    for (const auto& [name, member] : item.members) {
      const bool own = Document::own(member.key);
      const Axis* axis = axes_.find(name);
      if (axis != nullptr && axis->choice) {
        diagnostics_.error(member.key, fmt::format("axes.skip: `{}` is a choice, and every arm gets the same trials", name));
        applies = false;
        continue;
      }
      if (name != "arm" && axis == nullptr) {
        auto known = axes_.names();
        known.emplace_back("arm");
        if (own) diagnostics_.error(member.key, fmt::format("unknown axis `{}` in axes.skip", name), did_you_mean(name, known));
        applies = false;
        continue;
      }
      const std::vector<Value> single = {member.value};
      std::set<std::string>& named = name == "arm" ? rule.arms : rule.labels[name];
      for (const Value& one : member.value.is(Value::Type::array) ? member.value.items : single) {
        const std::string label = scalar_label(one);
        const AxisElement* element = axis != nullptr ? axis->element(label) : nullptr;
        const bool arm = name == "arm" && std::find(arm_names_.begin(), arm_names_.end(), label) != arm_names_.end();
        if (arm || element != nullptr) {
          named.insert(arm ? label : element->label);
        } else if (own) {
          const auto known = axis != nullptr ? axis->labels() : arm_names_;
          diagnostics_.error(one.place,
                             axis != nullptr ? fmt::format("axis `{}` has no label `{}`", name, label)
                                             : fmt::format("unknown arm `{}` in axes.skip", label),
                             did_you_mean(label, known), known.size() <= 8 ? "known: " + join(known, ", ") : "");
        }
      }
      applies = applies && !named.empty();
    }
    if (applies) axes_.rules_.push_back(std::move(rule));
  }

  const Value& root_;
  const std::vector<std::string>& arm_names_;
  Diagnostics& diagnostics_;
  Axes axes_;
  bool choosing_ = false;  ///< [choose] is read, not [axes]
};

Axes read_axes(const Value& root, const std::vector<std::string>& arm_names, Diagnostics& diagnostics) {
  return AxesReader(root, arm_names, diagnostics).read();
}

}  // namespace moiety::host
