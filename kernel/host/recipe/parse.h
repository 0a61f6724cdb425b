// TOML text → Value tree. Hostile text gives an error, never a crash: size, depth and length of strings are limited.
#ifndef MOIETY_KERNEL_HOST_RECIPE_PARSE_H_
#define MOIETY_KERNEL_HOST_RECIPE_PARSE_H_

#include <optional>
#include <string>
#include <string_view>

#include "kernel/host/recipe/diagnostics.h"
#include "kernel/host/recipe/value.h"

namespace moiety::host {

constexpr std::size_t most_recipe_bytes = 1 << 20;  ///< of one file
constexpr int most_nesting = 32;                    ///< tables and arrays inside each other, and keys in one dotted key
constexpr std::size_t most_text_bytes = 64 << 10;   ///< of one string

/// The tree, or nothing and an error in `diagnostics`. `source` is the index of this text in the diagnostics' sources.
std::optional<Value> parse_toml(std::string_view text, int source, Diagnostics& diagnostics);

/// A value as it stands behind `=` on a command line: TOML, or a bare word, which is a string. Nothing when it begins like a
/// list, table or quoted string but is none.
std::optional<Value> parse_argument(std::string_view text, const Place& place);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_PARSE_H_
