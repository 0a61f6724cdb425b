#include "kernel/host/recipe/expand.h"

#include <fmt/format.h>

#include <utility>

#include "kernel/base/text.h"
#include "kernel/host/recipe/parse.h"

namespace moiety::host {
namespace {

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

bool pastes(const Value& value) {
  return value.is(Value::Type::text) || value.is(Value::Type::boolean) || value.is(Value::Type::integer) ||
         value.is(Value::Type::number);
}

}  // namespace

std::size_t size_in_bytes(const Value& value) {
  std::size_t bytes = sizeof(Value) + value.text.size();
  for (const auto& item : value.items) bytes += size_in_bytes(item);
  for (const auto& [key, member] : value.members) bytes += key.size() + size_in_bytes(member.value);
  return bytes;
}

void refuse_reference(Diagnostics& diagnostics, const Place& place, std::string message, std::string suggestion) {
  diagnostics.error(place, std::move(message), std::move(suggestion));
  diagnostics.spoil(place);
}

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
      refuse_reference(diagnostics, place, "`${` without its `}`");
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
      refuse_reference(diagnostics, place,
                       fmt::format("{} is {}; inside other text only text, numbers and true or false can stand", written,
                                   type_name(found.value->type)));
      return false;
    } else {
      out += pasted(*found.value);
      changed = true;
    }
    i = end + 1;
    if (out.size() > most_text_bytes) {
      refuse_reference(diagnostics, place,
                       fmt::format("text is longer than {} bytes once its references are replaced", most_text_bytes));
      return false;
    }
  }
  value.text = out;
  return changed;
}

}  // namespace moiety::host
