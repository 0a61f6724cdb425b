// `[plugins] path`: the folders and files of plugins that a recipe brings along. They are searched only when the user trusts
// them.
#ifndef MOIETY_KERNEL_HOST_RECIPE_PLUGIN_PATHS_H_
#define MOIETY_KERNEL_HOST_RECIPE_PLUGIN_PATHS_H_

#include <string>
#include <vector>

#include "kernel/host/recipe/diagnostics.h"
#include "kernel/host/recipe/document.h"
#include "kernel/host/recipe/value.h"

namespace moiety::host {

/// Absolute, as written in `root` after the merge. A relative path starts at the folder of the file that writes it (a parent's at
/// the parent's), one of `--set` at the working folder. What is no path is passed over: load_recipe tells it.
std::vector<std::string> plugin_paths(const Value& root, const Sources& sources);

/// The same for a recipe by its name: [define] and `--set` count. A recipe that cannot be read has none.
std::vector<std::string> plugin_paths(const std::string& recipe, const std::vector<Override>& overrides);

/// One of them as it stands in the resolved recipe: relative to the recipe itself, whoever wrote it.
std::string plugin_path_from_recipe(const Value& written, const Sources& sources);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_PLUGIN_PATHS_H_
