// Replaces the references in one text; whoever calls says what they stand for.
#ifndef MOIETY_KERNEL_HOST_RECIPE_EXPAND_H_
#define MOIETY_KERNEL_HOST_RECIPE_EXPAND_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "kernel/host/recipe/diagnostics.h"
#include "kernel/host/recipe/value.h"

namespace moiety::host {

/// What a reference stands for: a value, nothing because an error was told, or `later` for one that another pass replaces.
struct Found {
  std::optional<Value> value;
  bool later = false;
};
using Resolver = std::function<Found(const std::string& name, const Place& place)>;

// References to references can grow without bound.
inline constexpr int most_replacements = 10000;
inline constexpr std::size_t most_copied = 16 << 20;

/// About how many bytes a value takes.
std::size_t size_in_bytes(const Value& value);

/// Tells an error about a reference and drops what would follow from it.
void refuse_reference(Diagnostics& diagnostics, const Place& place, std::string message, std::string suggestion = {});

/// Replaces the references of one text. True when something was replaced.
bool expand_text(Value& value, const Resolver& resolve, Diagnostics& diagnostics);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_EXPAND_H_
