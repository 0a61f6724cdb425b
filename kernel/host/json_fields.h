// Fields of JSON that another program wrote (a worker, moiety-data, an older version): what is missing or of another type is
// absent, never an error.
#ifndef MOIETY_KERNEL_HOST_JSON_FIELDS_H_
#define MOIETY_KERNEL_HOST_JSON_FIELDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace moiety::host {

/// Null when there is none.
const nlohmann::json& member_at(const nlohmann::json& object, const char* key);
/// Empty when there is none.
std::string text_at(const nlohmann::json& object, const char* key);
/// A number, or one of the texts nan, inf, -inf, which JSON has no numbers for.
std::optional<double> real_of(const nlohmann::json& value);
std::optional<double> real_at(const nlohmann::json& object, const char* key);
/// 0 when there is none, or none that 64 bits can hold.
std::int64_t whole_at(const nlohmann::json& object, const char* key);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_JSON_FIELDS_H_
