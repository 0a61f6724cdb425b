#include "kernel/host/recipe/variation.h"

#include <algorithm>

#include "kernel/host/recipe/reads.h"

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
  return known_[stage] = std::move(axes);
}

/// What its own text mentions, and that of [model] when it starts fresh.
std::set<std::string> Variation::own(const Value& table, const VerbDeclaration* verb) const {
  std::set<std::string> axes;
  collect_axes(table, scope_.axes, axes);
  if (verb == nullptr || verb->leaves != "model") return axes;
  const bool reads = std::any_of(verb->inputs.begin(), verb->inputs.end(),
                                 [&](const InputDeclaration& input) { return table.find(input.name) != nullptr; });
  const Value* model = scope_.root.find("model");
  if (reads || model == nullptr) return axes;
  Value laid_over = *model;
  if (const Value* over = table.find("model")) merge(laid_over, *over);
  collect_axes(laid_over, scope_.axes, axes);
  return axes;
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
