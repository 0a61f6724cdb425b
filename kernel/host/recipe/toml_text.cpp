#include "kernel/host/recipe/toml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "kernel/base/text.h"

namespace moiety::host {

bool is_bare_key(std::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(),
                                     [](unsigned char c) { return (c < 0x80 && std::isalnum(c) != 0) || c == '_' || c == '-'; });
}

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
          out += fmt::format("\\u{:04X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        } else {
          out.push_back(c);
        }
    }
  }
  return out + "\"";
}

namespace {

std::string toml_number(double value) {
  std::string text = number(value);
  // TOML tells a float from an integer by its point.
  if (std::isfinite(value) && text.find_first_of(".eE") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string toml_inline(const Value& value) {
  if (!value.reference.empty()) return toml_string(value.reference);
  switch (value.type) {
    case Value::Type::none:
      return "\"\"";
    case Value::Type::boolean:
      return value.boolean ? "true" : "false";
    case Value::Type::integer:
      return std::to_string(value.integer);
    case Value::Type::number:
      return toml_number(value.number);
    case Value::Type::text:
      return toml_string(value.text);
    case Value::Type::array: {
      std::vector<std::string> items;
      for (const auto& item : value.items) items.push_back(toml_inline(item));
      return "[" + join(items, ", ") + "]";
    }
    case Value::Type::table: {
      std::vector<std::string> items;
      for (const auto& [key, member] : value.members) items.push_back(toml_key(key) + " = " + toml_inline(member.value));
      return items.empty() ? "{}" : "{ " + join(items, ", ") + " }";
    }
  }
  return {};
}

std::string toml_table(const std::vector<std::string>& path, const Value& table, const LeafComment& comment) {
  std::vector<std::pair<std::string, const Value*>> leaves, tables;
  std::size_t widest = 0;
  for (const auto& [key, member] : table.members) {
    const bool nested = member.value.is_table() && member.value.reference.empty();
    (nested ? tables : leaves).emplace_back(key, &member.value);
    if (!nested) widest = std::max(widest, width(toml_key(key)));
  }
  std::string text;
  if (!leaves.empty() || tables.empty()) text += "\n[" + join_path(path) + "]\n";
  for (const auto& [key, value] : leaves) {
    const std::string written = toml_key(key);
    text += written + std::string(widest - width(written), ' ') + " = " + toml_inline(*value);
    const std::string note = comment ? comment(*value) : "";
    if (!note.empty()) text += "  # " + note;
    text += "\n";
  }
  for (const auto& [key, value] : tables) {
    auto deeper = path;
    deeper.push_back(key);
    text += toml_table(deeper, *value, comment);
  }
  return text;
}

}  // namespace moiety::host
