// `${name}` in recipe text: definitions and environment variables first, then keys of other stages (after the arm's patch).
#ifndef MOIETY_KERNEL_HOST_RECIPE_REFERENCE_H_
#define MOIETY_KERNEL_HOST_RECIPE_REFERENCE_H_

#include <functional>
#include <optional>
#include <string>

#include "kernel/host/recipe/diagnostics.h"
#include "kernel/host/recipe/document.h"
#include "kernel/host/recipe/value.h"

namespace moiety::host {

/// Replaces `${name}`, `${name.part}` and `${env:MOIETY_X}` everywhere and removes [define]. References to keys of stages stay
/// for expand_stage_references. An unused definition of the recipe itself, an unknown name and a circle are errors.
void expand_definitions(Document& document, Diagnostics& diagnostics);

/// Replaces `${stage.NAME.key}` and `${model.key}` inside `root`'s stage and model tables. The values remember the reference.
void expand_stage_references(Value& root, Diagnostics& diagnostics);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_REFERENCE_H_
