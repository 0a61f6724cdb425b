// Files that are whole or absent: reading, atomic writing, publishing of folders.
#ifndef MOIETY_KERNEL_BASE_FILES_H_
#define MOIETY_KERNEL_BASE_FILES_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "kernel/base/result.h"

namespace moiety {

Result<std::string> read_file(const std::string& path);

/// Writes `path.tmp.<pid>`, syncs it, renames it over `path`, syncs the folder: a reader sees the old content or the new one.
/// A full disk is an `environment` error; the old file is then untouched and no temporary file is left.
Status write_file(const std::string& path, std::string_view content);

Status make_folders(const std::string& path);

/// Moves a finished folder into place: syncs every file in it, then renames. When `to` exists already (another process was
/// faster with the same content), the source is removed and the call succeeds.
Status publish_folder(const std::string& from, const std::string& to);

/// A folder that is removed with everything in it when the object goes.
class TemporaryFolder {
 public:
  /// In TMPDIR, else in /tmp. Error (`environment`): the folder cannot be made; the hint names TMPDIR.
  static Result<std::unique_ptr<TemporaryFolder>> make();
  /// The same for tests: throws what `make` returns.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace moiety

#endif  // MOIETY_KERNEL_BASE_FILES_H_
