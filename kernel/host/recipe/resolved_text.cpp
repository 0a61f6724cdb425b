#include "kernel/host/recipe/resolved_text.h"

#include "kernel/base/hash.h"
#include "kernel/base/text.h"
#include "kernel/host/recipe/toml_text.h"

namespace moiety::host {

Value resolved_patch(const Value& patch, const Value* resolved) {
  if (resolved == nullptr) return patch;
  if (!patch.is_table() || patch.find("use") != nullptr || !resolved->is_table()) return *resolved;
  Value result = patch;
  for (auto& [key, member] : result.members) member.value = resolved_patch(member.value, resolved->find(key));
  return result;
}

std::string resolved_recipe_text(const Value& resolved, const Sources* sources) {
  LeafComment comment;
  if (sources != nullptr) {
    comment = [sources](const Value& value) {
      const std::string place = sources->text(value.place);
      return printable(place.empty() ? value.origin : place);
    };
  }
  std::string text;
  for (const char* section : {"recipe", "corpus", "model", "axes", "choose", "measure", "limits", "plugins"}) {
    const Value* table = resolved.find(section);
    if (table != nullptr) text += toml_table({section}, *table, comment);
  }
  if (const Value* stages = resolved.find("stage")) {
    for (const auto& [name, member] : stages->members) text += toml_table({"stage", name}, member.value, comment);
  }
  for (const char* section : {"arm", "claim"}) {
    const Value* table = resolved.find(section);
    if (table == nullptr) continue;
    for (const auto* entry : table->in_written_order()) text += toml_table({section, entry->first}, entry->second.value, comment);
  }
  return text.empty() ? text : text.substr(1);
}

std::string resolved_hash(const Value& resolved) {
  return sha256(resolved.to_json().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace moiety::host
