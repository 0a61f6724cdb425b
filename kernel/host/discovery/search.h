// Which files are plugin candidates: `*.moiety.so` in the folders of the search order, nothing else, nothing opened.
#ifndef MOIETY_KERNEL_HOST_DISCOVERY_SEARCH_H_
#define MOIETY_KERNEL_HOST_DISCOVERY_SEARCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/base/result.h"

namespace moiety::host {

/// What tells whether a file is still the one that was looked at before.
struct FileIdentity {
  std::string path;
  std::uint64_t size = 0, inode = 0;
  std::int64_t mtime_ns = 0;

  bool operator==(const FileIdentity& other) const {
    return path == other.path && size == other.size && inode == other.inode && mtime_ns == other.mtime_ns;
  }
  /// Nothing to compare with when the file is not there: size 0, inode 0.
  static FileIdentity of(const std::string& path);
};

struct Candidate {
  FileIdentity identity;
  std::string folder;   ///< where it was found
  std::string problem;  ///< why it cannot even be read: a loop of symbolic links, no permission, not a file
};

struct SearchedFolder {
  std::string path, origin;  ///< origin: "--plugin-path", "MOIETY_PLUGIN_PATH", "the recipe's plugins.path", "beside moiety", …
  std::string problem;       ///< missing or not readable; a missing shipped folder is no problem of the user's
  int files = 0;
};

struct SearchPath {
  std::string path, origin;
};

struct Search {
  std::vector<SearchedFolder> folders;
  std::vector<Candidate> candidates;  ///< in search order; names sorted inside a folder; a file reached twice is listed once
};

/// Entries may be folders or single `*.moiety.so` files. All paths in the answer are absolute.
Search find_plugin_files(const std::vector<SearchPath>& order);

/// Error (`usage`): a folder or file that the command line names (`--plugin-path`) is not there or cannot be read. Those of the
/// environment and of the install may be missing.
Status check_named(const Search& search);

/// The search order of design and README: `--plugin-path` (each may be a colon list), MOIETY_PLUGIN_PATH, the recipe's own path
/// when it is trusted, beside the program, the install folder.
std::vector<SearchPath> search_order(const std::vector<std::string>& given, const std::vector<std::string>& trusted_recipe_paths);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_DISCOVERY_SEARCH_H_
