// Reads chosen files out of a Debian package, in memory.
#ifndef MOIETY_KERNEL_DATA_PACKAGES_ARCHIVE_H_
#define MOIETY_KERNEL_DATA_PACKAGES_ARCHIVE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "kernel/base/result.h"

namespace moiety::data {

/// Path inside the package ("usr/share/…", no leading "./") → content, in order of paths.
using Files = std::map<std::string, std::string>;
using Chooser = std::function<bool(std::string_view path)>;

/// More than all files of a corpus that are read from one package.
inline constexpr std::uint64_t kArchiveLimit = std::uint64_t{512} << 20;

/// A tar stream in pieces of any size: POSIX and GNU headers, long names included. Links, folders and devices are passed over.
class TarReader {
 public:
  explicit TarReader(Chooser wanted, std::uint64_t limit = kArchiveLimit);
  /// An error for a header whose checksum or size makes no sense, and when the chosen files exceed the limit.
  Status add(std::string_view piece);
  /// The chosen files; an error when the stream ended inside a file.
  Result<Files> finish();

 private:
  Status read_header(std::string_view block);
  void end_entry();

  Chooser wanted_;
  std::uint64_t limit_;
  std::uint64_t kept_ = 0;
  Files files_;
  std::string pending_;          ///< less than one block of a header
  std::string content_;          ///< of the entry that is being read, when it is kept
  std::string name_;             ///< of that entry
  std::string long_name_;        ///< for the next entry
  std::uint64_t remaining_ = 0;  ///< bytes of content that still come
  std::uint64_t padding_ = 0;    ///< zero bytes after it
  char type_ = 0;
  bool keep_ = false;
  bool ended_ = false;
};

/// Pipes the package through `dpkg-deb --fsys-tarfile`.
Result<Files> read_package(const std::string& deb, const Chooser& wanted);

/// Shell pattern in which `*` also matches `/`.
bool matches(std::string_view pattern, std::string_view path);

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_PACKAGES_ARCHIVE_H_
