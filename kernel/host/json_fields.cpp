#include "kernel/host/json_fields.h"

#include <limits>

namespace moiety::host {

const nlohmann::json& member_at(const nlohmann::json& object, const char* key) {
  static const nlohmann::json nothing;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() ? *found : nothing;
}

std::string text_at(const nlohmann::json& object, const char* key) {
  const auto& value = member_at(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::optional<double> real_of(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

std::optional<double> real_at(const nlohmann::json& object, const char* key) { return real_of(member_at(object, key)); }

std::int64_t whole_at(const nlohmann::json& object, const char* key) {
  const auto& value = member_at(object, key);
  if (value.is_number_unsigned()) {
    const auto whole = value.get<std::uint64_t>();
    return whole <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ? static_cast<std::int64_t>(whole) : 0;
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  const double real = real_of(value).value_or(0);
  return real > -9e18 && real < 9e18 ? static_cast<std::int64_t>(real) : 0;
}

}  // namespace moiety::host
