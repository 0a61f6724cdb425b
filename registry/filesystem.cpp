// Which file systems need SQLite's rollback journal: WAL keeps its index in memory shared by mmap, which network file systems do
// not share between hosts (malformed files, SIGBUS, "locking protocol").
#include <sys/vfs.h>

#include <array>
#include <atomic>
#include <utility>

#include "registry/connection.h"

namespace moiety::registry {

namespace {

// statfs(2) and the kernel's include/uapi/linux/magic.h; Lustre, GPFS and BeeGFS live outside the kernel tree.
constexpr std::array<std::pair<std::uint32_t, const char*>, 14> network_magic = {{{0x6969, "nfs"},
                                                                                  {0x0BD00BD0, "lustre"},
                                                                                  {0x65735546, "fuse"},
                                                                                  {0x517B, "smb"},
                                                                                  {0xFF534D42, "cifs"},
                                                                                  {0xFE534D42, "smb2"},
                                                                                  {0x00C36400, "ceph"},
                                                                                  {0x01021997, "9p"},
                                                                                  {0x5346414F, "afs"},
                                                                                  {0x6B414653, "afs"},
                                                                                  {0x73757245, "coda"},
                                                                                  {0x47504653, "gpfs"},
                                                                                  {0x19830326, "beegfs"},
                                                                                  {0x7461636F, "ocfs2"}}};

std::atomic<std::string (*)(const std::string&)> replaced{nullptr};

}  // namespace

std::string network_filesystem(const std::string& folder) {
  if (auto* probe = replaced.load()) return probe(folder);
  struct statfs info {};
  if (statfs(folder.c_str(), &info) != 0) return {};
  const auto magic = static_cast<std::uint32_t>(info.f_type);
  for (const auto& [value, name] : network_magic) {
    if (magic == value) return name;
  }
  return {};
}

void replace_network_filesystem(std::string (*probe)(const std::string& folder)) { replaced.store(probe); }

}  // namespace moiety::registry
