// STORE/catalog.json: what the worker said of itself and of each plugin file, so that it is asked once a file. A hint: a missing
// or damaged cache is the same as none.
#ifndef MOIETY_KERNEL_HOST_DISCOVERY_CACHE_H_
#define MOIETY_KERNEL_HOST_DISCOVERY_CACHE_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernel/host/discovery/search.h"

namespace moiety::host {

class CatalogCache {
 public:
  /// `surroundings` is everything besides the files themselves that the answers depend on (the worker's identity, the library
  /// path). A cache made in others is empty.
  CatalogCache(std::string path, nlohmann::json surroundings);

  std::optional<nlohmann::json> describe() const;
  void set_describe(nlohmann::json said);
  /// What was said of exactly this file (path, size, time, inode), the reason of a failure included.
  std::optional<nlohmann::json> probed(const FileIdentity& file) const;
  void set_probed(const FileIdentity& file, nlohmann::json said);

  bool changed() const { return changed_; }
  /// Best effort. `make_folder` false: nothing is written when the store's folder does not exist.
  void save(bool make_folder);

 private:
  std::string path_;
  nlohmann::json surroundings_, describe_;
  std::vector<std::pair<FileIdentity, nlohmann::json>> files_;
  bool changed_ = false;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_DISCOVERY_CACHE_H_
