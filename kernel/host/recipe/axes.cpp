#include "kernel/host/recipe/axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "kernel/base/text.h"
#include "kernel/host/recipe/reference.h"

namespace moiety::host {
namespace {

constexpr std::size_t most_combinations = 10000;

std::optional<double> as_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value == 0 ? 0 : value;  // −0 is 0
}

}  // namespace

std::string canonical_label(const std::string& label) {
  const auto value = as_number(label);
  return value ? number(*value) : label;
}

bool agree(const AxisLabels& a, const AxisLabels& b) {
  return std::all_of(a.begin(), a.end(), [&](const auto& one) {
    const auto found = b.find(one.first);
    return found == b.end() || found->second == one.second;
  });
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

Axes Axes::without_choices() const {
  Axes rest = *this;
  rest.axes_.erase(std::remove_if(rest.axes_.begin(), rest.axes_.end(), [](const Axis& axis) { return axis.choice.has_value(); }),
                   rest.axes_.end());
  return rest;
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
