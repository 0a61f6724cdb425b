// Debian packages as files in the store: found there, or fetched by apt without root.
#ifndef MOIETY_KERNEL_DATA_PACKAGES_PACKAGES_H_
#define MOIETY_KERNEL_DATA_PACKAGES_PACKAGES_H_

#include <map>
#include <string>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/data/command/progress.h"

namespace moiety::data {

struct Package {
  std::string name;
  std::string version;
  std::string path;  ///< of the .deb
};

/// `fortunes_1%3a1.99.1-7.3_all.deb` → name, version with the epoch's colon; an empty name when it is no such file name.
Package parse_package_file_name(const std::string& path);

/// Every named package, from STORE/packages or by `apt-get download`. When the system's package lists do not know a package,
/// private lists are fetched into STORE/apt and used instead. Files appear in STORE/packages whole or not at all. An environment
/// error names the packages that cannot be had and the one line to type. Call it under the store's lock.
Result<std::map<std::string, Package>> obtain_packages(const std::vector<std::string>& names, const std::string& store,
                                                       Progress& progress);

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_PACKAGES_PACKAGES_H_
