// What a stage reads, as its text says it: `dense`, `branch(specialty=*)`, `branch(specialty=law, size=4k)`.
#ifndef MOIETY_KERNEL_HOST_RECIPE_READS_H_
#define MOIETY_KERNEL_HOST_RECIPE_READS_H_

#include <optional>
#include <string>

#include "kernel/host/recipe/axes.h"

namespace moiety::host {

inline constexpr const char* all_labels = "*";

struct ReadText {
  std::string stage;
  AxisLabels selected;   ///< axis → label, or all_labels
  std::string snapshot;  ///< what stands behind `@`
};

/// Nothing and a problem when brackets or pins are not as they should be.
std::optional<ReadText> parse_read(const std::string& text, std::string& problem);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_READS_H_
