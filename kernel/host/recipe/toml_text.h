// Writing TOML: sorted keys, one form for each value, so that equal recipes are equal text.
#ifndef MOIETY_KERNEL_HOST_RECIPE_TOML_TEXT_H_
#define MOIETY_KERNEL_HOST_RECIPE_TOML_TEXT_H_

#include <functional>
#include <string>
#include <string_view>

#include "kernel/host/recipe/value.h"

namespace moiety::host {

bool is_bare_key(std::string_view key);
/// A basic string with what TOML demands escaped.
std::string toml_string(std::string_view text);
/// A value on one line.
std::string toml_inline(const Value& value);

/// A comment for a leaf, without the `#`; empty for none.
using LeafComment = std::function<std::string(const Value&)>;

/// The members of a table under the header `[path]`; tables inside follow under headers of their own. Nothing is written for the
/// header of a table that has only tables in it.
std::string toml_table(const std::vector<std::string>& path, const Value& table, const LeafComment& comment);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_TOML_TEXT_H_
