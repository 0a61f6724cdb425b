// Where the other programs, the recipes and the shipped plugins are: beside this program, unless the environment says otherwise.
#ifndef MOIETY_KERNEL_HOST_DISCOVERY_LOCATE_H_
#define MOIETY_KERNEL_HOST_DISCOVERY_LOCATE_H_

#include <string>
#include <vector>

#include "kernel/base/result.h"

namespace moiety::host {

/// Folder of the running program, symbolic links resolved.
std::string program_folder();

/// MOIETY_WORKER, or moiety-worker beside this program. Error (`environment`): not there, or not executable.
Result<std::string> find_worker();
/// MOIETY_DATA, or moiety-data beside this program.
Result<std::string> find_data_program();
/// MOIETY_RECIPES; ../share/moiety/recipes of an installed program; the recipes folder of the source tree it was built from.
Result<std::string> find_recipes_folder();
/// Folders with shipped plugins: next to the executable (../lib/moiety), then the install folder. They may be missing.
std::vector<std::string> shipped_plugin_folders();

/// Absolute and without `.` and `..`; symbolic links stay as they are.
std::string absolute_path(const std::string& path);

/// `--registry`, MOIETY_DB, ./moiety.db. Absolute.
std::string registry_path(const std::string& given);
/// `--store`, MOIETY_STORE, $XDG_CACHE_HOME/moiety, ~/.cache/moiety. Absolute.
std::string store_path(const std::string& given);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_DISCOVERY_LOCATE_H_
