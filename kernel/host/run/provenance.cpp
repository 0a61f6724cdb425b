#include "kernel/host/run/provenance.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "kernel/base/text.h"
#include "kernel/host/run/process.h"

namespace moiety::host {
namespace {

constexpr std::size_t kMostDiff = 1U << 20U;
constexpr double kGitSeconds = 5;

/// Output of a git command; empty when it fails.
std::string git(const std::string& folder, std::vector<std::string> words) {
  Command command;
  // No user configuration that runs programs (external diff, fsmonitor), no prompts, no pager.
  command.words = {"git", "-c", "core.fsmonitor=false", "--no-pager", "--no-optional-locks"};
  command.words.insert(command.words.end(), words.begin(), words.end());
  command.folder = folder;
  command.environment = {{"GIT_TERMINAL_PROMPT", "0"}, {"LC_ALL", "C"}};
  command.stderr_to_pipe = true;
  const auto captured = capture(command, kGitSeconds);
  return captured && captured->exit.ok() && !captured->timed_out ? captured->output : "";
}

int find_build_id(dl_phdr_info* info, std::size_t, void* into) {
  // The first object is the program itself.
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    const char* at = reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
    const char* end = at + header.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const auto padded = [](std::size_t n) { return (n + 3) / 4 * 4; };
      const char* owner = at + sizeof note;
      const char* description = owner + padded(note.n_namesz);
      const char* next = description + padded(note.n_descsz);
      if (next > end) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(owner, "GNU", 4) == 0) {
        auto* text = static_cast<std::string*>(into);
        for (std::size_t k = 0; k < note.n_descsz; ++k)
          *text += fmt::format("{:02x}", static_cast<unsigned char>(description[k]));
        return 1;
      }
      at = next;
    }
  }
  return 1;
}

}  // namespace

Provenance provenance_of(const std::string& folder) {
  Provenance found;
  found.commit = git(folder, {"rev-parse", "HEAD"});
  while (!found.commit.empty() && found.commit.back() == '\n') found.commit.pop_back();
  if (found.commit.empty()) return found;
  const auto status = git(folder, {"status", "--porcelain", "--untracked-files=normal"});
  found.dirty = !status.empty();
  const char* off = std::getenv("MOIETY_NO_DIFF");
  if (!found.dirty || (off != nullptr && std::string_view(off) == "1")) return found;
  found.diff = git(folder, {"diff", "--no-ext-diff", "--no-textconv", "--no-color", "HEAD"});
  for (const auto& line : split(status, '\n')) {
    if (line.rfind("?? ", 0) == 0) found.diff += "untracked: " + line.substr(3) + "\n";
  }
  if (found.diff.size() > kMostDiff) {
    found.diff.resize(kMostDiff);
    found.diff += "\n[cut at 1 MiB]\n";
  }
  return found;
}

std::string own_build_id() {
  std::string text;
  ::dl_iterate_phdr(find_build_id, &text);
  return text;
}

}  // namespace moiety::host
