// A resolved recipe as text: every default and version written out. Resolving it again gives the same text.
#ifndef MOIETY_KERNEL_HOST_RECIPE_RESOLVED_TEXT_H_
#define MOIETY_KERNEL_HOST_RECIPE_RESOLVED_TEXT_H_

#include <string>
#include <vector>

#include "kernel/host/recipe/arms.h"
#include "kernel/host/recipe/recipe.h"

namespace moiety::host {

/// `patch` with what its values became: defaults and versions of components written out. What has no counterpart in `resolved`
/// (a stage that the arm does not reach) stays as written.
Value resolved_patch(const Value& patch, const Value* resolved);

/// Sections in a fixed order, keys sorted; arms and claims as written. With `sources`, each leaf is followed by where it comes
/// from.
std::string resolved_recipe_text(const Value& resolved, const Sources* sources);

/// SHA-256 of what the tree says, whatever the order of its keys.
std::string resolved_hash(const Value& resolved);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_RESOLVED_TEXT_H_
