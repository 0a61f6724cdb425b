// Opens plugin libraries. Once opened, a library stays mapped until the process ends: an autograd graph or an exception object
// may point into it at any time.
#ifndef MOIETY_KERNEL_ENGINE_PLUGINS_LIBRARY_H_
#define MOIETY_KERNEL_ENGINE_PLUGINS_LIBRARY_H_

#include <string>

#include "kernel/base/result.h"
#include "kernel/engine/plugins/elf.h"
#include "moiety/plugin.h"

namespace moiety::engine {

struct Library {
  std::string path;                              ///< absolute, as given
  std::string build_id;                          ///< GNU build id; of an equal rebuild it is equal
  const PluginDescriptor* descriptor = nullptr;  ///< checked: every text, table and function lies inside the library
};

/// Reads the file's build tag and refuses it, unopened, when that differs from this process's; then opens it (absolute path, all
/// symbols now, local, never unloaded) and checks its descriptor. A second call for the same file gives the same library.
/// Static initialisers of the library run here: probe unknown files in a process of their own. Never throws.
Result<const Library*> open_library(const std::string& path);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_PLUGINS_LIBRARY_H_
