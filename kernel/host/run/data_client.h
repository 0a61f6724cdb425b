// Corpus and tasks of a recipe, prepared by moiety-data.
#ifndef MOIETY_KERNEL_HOST_RUN_DATA_CLIENT_H_
#define MOIETY_KERNEL_HOST_RUN_DATA_CLIENT_H_

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernel/base/result.h"

namespace moiety::host {

struct PreparedFolder {
  std::string name;  ///< "debian-8@1"
  std::string path, hash;
};

struct PreparedFolders {
  PreparedFolder corpus;                        ///< hash empty: the recipe needs none
  std::map<std::string, PreparedFolder> tasks;  ///< by "name@version" and by bare name
  std::vector<std::string> missing;             ///< with check_only: what has not been prepared
  int interrupted = 0;                          ///< signal that ended the preparation
};

struct DataRequest {
  nlohmann::json corpus;           ///< resolved [corpus], or null
  std::vector<std::string> tasks;  ///< "supersense@1"
  std::string program, store, recipes;
  bool check_only = false;  ///< prepare nothing
  bool quiet = false;
};

/// Runs `moiety-data prepare`; its progress goes to our stderr. Errors keep its exit code (2 unknown corpus or task, 3 package
/// not obtainable, disk full); what it said of it stands on stderr already, the message here is one closing line.
Result<PreparedFolders> prepare_data(const DataRequest& request);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RUN_DATA_CLIENT_H_
