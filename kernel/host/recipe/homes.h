// In which table of a recipe a key belongs: for keys that stand in the wrong one.
#ifndef MOIETY_KERNEL_HOST_RECIPE_HOMES_H_
#define MOIETY_KERNEL_HOST_RECIPE_HOMES_H_

#include <map>
#include <string>
#include <vector>

#include "kernel/host/catalog.h"

namespace moiety::host {

/// Keys of the tables that neither a verb nor a component declares.
const std::map<std::string, std::vector<std::string>>& fixed_tables();
/// Keys that every stage has beside its verb's.
const std::vector<std::string>& stage_keys();

/// "[model]", "[stage.<name>]", "[stage.split.feed_forward.router]", "a stage that does `finetune`"; empty when no table has it.
/// `path` and `label` (a verb's name) say where the key stands now.
std::string find_home(const Catalog& catalog, const std::string& key, const std::string& path, const std::string& label);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_HOMES_H_
