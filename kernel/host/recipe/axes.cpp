#include "kernel/host/recipe/axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "kernel/base/text.h"
#include "kernel/host/recipe/document.h"
#include "kernel/host/recipe/reference.h"

namespace moiety::host {
namespace {

constexpr std::size_t most_labels = 1000;
constexpr std::size_t most_combinations = 10000;
constexpr std::size_t longest_label = 80;

std::optional<double> as_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value == 0 ? 0 : value;  // −0 is 0
}

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

std::string canonical_label(const std::string& label) {
  const auto value = as_number(label);
  return value ? number(*value) : label;
}

std::string instance_text(const std::string& name, const AxisLabels& labels) {
  if (labels.empty()) return name;
  std::vector<std::string> parts;
  for (const auto& [axis, label] : labels) parts.push_back(axis + "=" + label);
  return name + " [" + join(parts, ", ") + "]";
}

const std::vector<std::string>& recorded_axes() {
  static const auto* names =
      new std::vector<std::string>{"bin", "domain", "expert", "layer", "order", "pair", "part", "progress", "set"};
  return *names;
}

std::vector<std::string> Axis::labels() const {
  std::vector<std::string> result;
  for (const auto& element : elements) result.push_back(element.label);
  return result;
}

const AxisElement* Axis::element(const std::string& label) const {
  const std::string wanted = canonical_label(label);
  const auto found = std::find_if(elements.begin(), elements.end(),
                                  [&](const AxisElement& one) { return canonical_label(one.label) == wanted; });
  return found == elements.end() ? nullptr : &*found;
}

const Axis* Axes::find(const std::string& name) const {
  const auto found = std::find_if(axes_.begin(), axes_.end(), [&](const Axis& axis) { return axis.name == name; });
  return found == axes_.end() ? nullptr : &*found;
}

std::vector<std::string> Axes::names() const {
  std::vector<std::string> result;
  for (const auto& axis : axes_) result.push_back(axis.name);
  return result;
}

AxisLabels Axes::first_labels() const {
  AxisLabels labels;
  for (const auto& axis : axes_) labels[axis.name] = axis.elements.front().label;
  return labels;
}

bool Axes::skipped(const std::string& arm, const AxisLabels& labels) const {
  return std::any_of(rules_.begin(), rules_.end(), [&](const Rule& rule) {
    if (!rule.arms.empty() && rule.arms.count(arm) == 0) return false;
    return std::all_of(rule.labels.begin(), rule.labels.end(), [&](const auto& part) {
      const auto found = labels.find(part.first);
      return found != labels.end() && part.second.count(found->second) != 0;
    });
  });
}

std::vector<AxisLabels> Axes::combinations(const std::string& arm, const std::set<std::string>& axes) const {
  std::vector<AxisLabels> result = {{}};
  for (const auto& name : axes) {
    const Axis* axis = find(name);
    if (axis == nullptr) continue;
    std::vector<AxisLabels> longer;
    for (const auto& labels : result) {
      for (const auto& element : axis->elements) {
        if (longer.size() >= most_combinations) return longer;
        longer.push_back(labels);
        longer.back()[name] = element.label;
      }
    }
    result = std::move(longer);
  }
  result.erase(std::remove_if(result.begin(), result.end(), [&](const AxisLabels& labels) { return skipped(arm, labels); }),
               result.end());
  return result;
}

class AxesReader {
 public:
  AxesReader(const Value& root, const std::vector<std::string>& arm_names, Diagnostics& diagnostics)
      : root_(root), arm_names_(arm_names), diagnostics_(diagnostics) {}

  Axes read() {
    const auto found = root_.members.find("axes");
    if (found == root_.members.end()) return {};
    const Value& table = found->second.value;
    if (!table.is_table()) {
      diagnostics_.error(found->second.key, "[axes] is a table of axes, as in k = [4, 8, 16]");
      return {};
    }
    for (const auto& [name, member] : table.members) {
      if (name != "skip") read_axis(name, member);
    }
    check_labels();
    check_size(found->second.key);
    if (const Value* skip = table.find("skip")) read_skip(*skip);
    return std::move(axes_);
  }

 private:
  void read_axis(const std::string& name, const Member& member) {
    const auto& recorded = recorded_axes();
    if (std::find(recorded.begin(), recorded.end(), name) != recorded.end()) {
      diagnostics_.error(member.key,
                         fmt::format("`{}` is an axis that measuring adds: an axis of the recipe has another name", name));
      return;
    }
    if (toml_key(name) != name || name == "arm") {
      diagnostics_.error(member.key,
                         fmt::format("`{}` cannot be the name of an axis: letters, digits, `_` and `-`, not arm", name));
      return;
    }
    Axis axis{name, member.key, {}};
    const Value& written = member.value;
    if (written.is_text()) {
      if (!read_range(axis, written)) return;
    } else if (!written.is(Value::Type::array) || written.items.empty()) {
      diagnostics_.error(written.place, fmt::format("axis `{}` is a list of values, or a range as in \"1..64\"", name));
      return;
    }
    for (const Value& item : written.items) {
      if (!read_element(axis, item)) return;
    }
    if (axis.elements.size() > most_labels) {
      diagnostics_.error(
          member.key, fmt::format("axis `{}` has {} labels; at most {} are possible", name, axis.elements.size(), most_labels));
      return;
    }
    axes_.axes_.push_back(std::move(axis));
  }

  bool read_range(Axis& axis, const Value& written) {
    const auto range = as_range(written.text);
    if (!range || range->first > range->second ||
        static_cast<std::uint64_t>(range->second) - static_cast<std::uint64_t>(range->first) >= most_labels) {
      diagnostics_.error(
          written.place,
          fmt::format("axis `{}` is a list of values, or a range of at most {} numbers as in \"1..64\"", axis.name, most_labels));
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
        diagnostics_.error(item.place,
                           fmt::format("an element of axis `{}` that is a table needs `label` (or `use`)", axis.name));
        return false;
      }
      element.label = label != nullptr ? scalar_label(*label) : use->text;
      element.value.members.erase("label");
      if (label == nullptr) element.parts.set("label", Value::of(element.label));
    } else {
      element.label = scalar_label(item);
    }
    if (element.label.empty() || element.label.size() > longest_label || printable(element.label) != element.label) {
      diagnostics_.error(item.place, fmt::format("a label of axis `{}` is a number or printable text of at most {} bytes",
                                                 axis.name, longest_label));
      return false;
    }
    if (axis.element(element.label) != nullptr) {
      diagnostics_.error(item.place, fmt::format("axis `{}` has the label `{}` twice", axis.name, element.label), "",
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
};

Axes read_axes(const Value& root, const std::vector<std::string>& arm_names, Diagnostics& diagnostics) {
  return AxesReader(root, arm_names, diagnostics).read();
}

void collect_axes(const Value& value, const Axes& axes, std::set<std::string>& found) {
  if (value.is_text()) {
    for (auto at = value.text.find("${"); at != std::string::npos; at = value.text.find("${", at + 2)) {
      const auto end = value.text.find_first_of(".}", at);
      if (end == std::string::npos) return;
      const std::string name = value.text.substr(at + 2, end - at - 2);
      if (axes.find(name) != nullptr) found.insert(name);
    }
    return;
  }
  for (const auto& item : value.items) collect_axes(item, axes, found);
  for (const auto& [key, member] : value.members) collect_axes(member.value, axes, found);
}

void substitute_axes(Value& value, const Axes& axes, const AxisLabels& labels, Diagnostics& diagnostics) {
  if (labels.empty()) return;
  const auto part_of = [&](const std::vector<std::string>& path) -> std::optional<Value> {
    const Axis* axis = axes.find(path[0]);
    const auto label = labels.find(path[0]);
    const AxisElement* element = axis != nullptr && label != labels.end() ? axis->element(label->second) : nullptr;
    if (element == nullptr) return std::nullopt;
    if (path.size() == 1) return element->value;
    const Value* part = element->parts.find_path({path.begin() + 1, path.end()});
    return part != nullptr ? std::optional<Value>(*part) : std::nullopt;
  };
  const auto has_part = [&](const std::string& axis) { return labels.count(axis) != 0; };
  expand_axis_references(value, has_part, part_of, diagnostics);
}

void substitute_first_labels(Value& value, const Axes& axes, Diagnostics& diagnostics) {
  substitute_axes(value, axes, axes.first_labels(), diagnostics);
}

}  // namespace moiety::host
