// The catalog of this call: plugin files found, asked (or remembered), shadowing decided. moiety itself opens none of them.
#ifndef MOIETY_KERNEL_HOST_DISCOVERY_DISCOVERY_H_
#define MOIETY_KERNEL_HOST_DISCOVERY_DISCOVERY_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/host/catalog.h"
#include "kernel/host/discovery/cache.h"
#include "kernel/host/discovery/search.h"

namespace moiety::host {

struct DiscoveryOptions {
  std::string worker, store;
  std::vector<SearchPath> order;
  bool rescan = false;        ///< ask again, whatever the cache says
  double probe_seconds = 10;  ///< a file
  double describe_seconds = 60;
};

/// A component that is hidden by one of the same kind, name and version earlier in the search order.
struct Shadowed {
  std::string component, file, by;
};

struct Discovery {
  nlohmann::json describe;            ///< what the worker said of itself
  std::vector<nlohmann::json> files;  ///< what was said of each candidate, in search order; {"path","error"} for a bad one
  std::vector<SearchedFolder> folders;
  std::vector<Shadowed> shadowed;
  Catalog catalog;
  CatalogCache cache;  ///< with what was learned now; the caller decides when it may be written
  int asked = 0;       ///< files that had to be probed
};

/// Errors: `usage`, a `--plugin-path` that is not there; `environment`, the worker cannot be asked, or what it says is not
/// understood. A bad plugin file is never an error
/// here.
Result<Discovery> discover(const DiscoveryOptions& options);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_DISCOVERY_DISCOVERY_H_
