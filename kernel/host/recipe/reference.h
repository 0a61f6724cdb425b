// `${name}` in recipe text: definitions and environment variables first, then keys of other stages (after the arm's patch).
#ifndef MOIETY_KERNEL_HOST_RECIPE_REFERENCE_H_
#define MOIETY_KERNEL_HOST_RECIPE_REFERENCE_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernel/host/recipe/diagnostics.h"
#include "kernel/host/recipe/document.h"
#include "kernel/host/recipe/value.h"

namespace moiety::host {

/// Replaces `${name}`, `${name.part}` and `${env:MOIETY_X}` everywhere and removes [define]. References to keys of stages stay
/// for expand_stage_references, those to axes for substitute_axes. An unused definition of the recipe itself, an unknown name, a
/// name with two meanings and a circle are errors.
void expand_definitions(Document& document, Diagnostics& diagnostics);

/// Replaces `${stage.NAME.key}` and `${model.key}` inside `root`'s stage and model tables. The values remember the reference.
void expand_stage_references(Value& root, Diagnostics& diagnostics);

/// (stage, result) of each `${NAME.result}` in one text, with NAME among `stages`.
std::vector<std::pair<std::string, std::string>> results_in(const Value& value, const Value& stages);

/// Replaces references whose first part `is_known`, by what `part_of` gives; nothing is an error. Others stay. The values
/// remember the reference.
void expand_axis_references(Value& value, const std::function<bool(const std::string&)>& is_known,
                            const std::function<std::optional<Value>(const std::vector<std::string>&)>& part_of,
                            Diagnostics& diagnostics);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_REFERENCE_H_
