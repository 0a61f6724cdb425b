#include "kernel/host/recipe/variation.h"

#include <algorithm>

#include "kernel/base/text.h"
#include "kernel/host/recipe/reads.h"
#include "kernel/host/recipe/reference.h"

namespace moiety::host {

const std::set<std::string>& Variation::of(const std::string& stage) {
  // Empty while it is worked out: stages that read each other in a circle are told by who follows them.
  const auto [known, is_new] = known_.emplace(stage, std::set<std::string>{});
  if (!is_new) return known->second;
  const Value* table = scope_.root.find("stage")->find(stage);
  if (table == nullptr || !table->is_table()) return known->second;
  const Value* verb_name = table->find("do");
  const VerbDeclaration* verb = verb_name != nullptr && verb_name->is_text() ? scope_.catalog.verb(verb_name->text) : nullptr;
  std::set<std::string> axes = own(*table, verb);
  for (const auto& input : verb != nullptr ? verb->inputs : std::vector<InputDeclaration>{}) {
    const Value* read = table->find(input.name);
    if (read == nullptr) continue;
    if (read->is_text()) add_read(*read, axes);
    for (const auto& item : read->items) add_read(item, axes);
  }
  if (verb != nullptr) add_inputs(*table, verb->parameters, axes);
  add_results(*table, axes);
  return known_[stage] = std::move(axes);
}

/// What its own text mentions, and that of [model] when it starts fresh.
std::set<std::string> Variation::own(const Value& table, const VerbDeclaration* verb) const {
  std::set<std::string> axes;
  collect_axes(table, scope_.axes, axes);
  if (verb == nullptr || verb->leaves != "model") return axes;
  const Value* model = scope_.root.find("model");
  if (table.find("from") != nullptr || model == nullptr) return axes;
  Value laid_over = *model;
  if (const Value* over = table.find("model")) merge(laid_over, *over);
  collect_axes(laid_over, scope_.axes, axes);
  return axes;
}

/// Of the stages that parameters of the verb and of its components name.
void Variation::add_inputs(const Value& table, const std::vector<ParameterDeclaration>& declared, std::set<std::string>& axes) {
  for (const auto& parameter : declared) {
    const Value* value = table.find_path(split(parameter.name, '.'));
    if (value == nullptr) continue;
    if (parameter.type == "input") add_read(*value, axes);
    const Value* use = value->find("use");
    if (parameter.type != "component" || use == nullptr || !use->is_text()) continue;
    const auto* component = scope_.catalog.component(parameter.kind, use->text);
    if (component != nullptr) add_inputs(*value, component->parameters, axes);
  }
}

/// Of the stages whose results its text mentions.
void Variation::add_results(const Value& value, std::set<std::string>& axes) {
  for (const auto& [stage, result] : results_in(value, *scope_.root.find("stage"))) {
    const auto& own = of(stage);
    axes.insert(own.begin(), own.end());
  }
  for (const auto& item : value.items) add_results(item, axes);
  for (const auto& [key, member] : value.members) add_results(member.value, axes);
}

void Variation::add_read(const Value& item, std::set<std::string>& axes) {
  std::string ignored;
  const auto read = item.is_text() ? parse_read(item.text, ignored) : std::nullopt;
  if (!read) return;
  for (const auto& axis : of(read->stage)) {
    if (read->selected.count(axis) == 0) axes.insert(axis);
  }
}

}  // namespace moiety::host
