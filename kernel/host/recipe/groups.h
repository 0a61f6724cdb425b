// [corpus.groups]: names for domains made of others, and what domains there are to make them of.
#ifndef MOIETY_KERNEL_HOST_RECIPE_GROUPS_H_
#define MOIETY_KERNEL_HOST_RECIPE_GROUPS_H_

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernel/host/recipe/diagnostics.h"
#include "kernel/host/recipe/value.h"

namespace moiety::host {

/// `general = ["fiction", "law"]`, `generic = { without = ["law"] }` → {"general": {"of": […]}, "generic": {"without": […]}}.
/// `domains` are those of the corpus; empty: not known, and then not checked.
nlohmann::json read_groups(const Value& groups, const std::vector<std::string>& domains, Diagnostics& diagnostics);

/// The groups whose names stand in a configuration, as a text or as a key.
nlohmann::json mentioned_groups(const nlohmann::json& groups, const nlohmann::json& config);

/// An error for a name that is no domain and no group; nothing while the domains are not known.
void check_domain(const Value& name, const std::string& where, const std::vector<std::string>& known, Diagnostics& diagnostics);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_GROUPS_H_
