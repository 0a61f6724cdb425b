#include "kernel/engine/plugins/elf.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace moiety::engine {
namespace {

constexpr std::uint64_t tag_limit = 64 * 1024, note_limit = 1024 * 1024, names_limit = 16 * 1024 * 1024;

tl::unexpected<Error> refuse(const char* why) { return fail(ErrorKind::failed, why); }

class Reader {
 public:
  Reader(std::uint64_t size, const ReadBytes& read) : size_(size), read_(read) {}
  bool holds(std::uint64_t offset, std::uint64_t size) const { return size <= size_ && offset <= size_ - size; }
  template <class T>
  bool get(std::uint64_t offset, T& value) const {
    return holds(offset, sizeof(T)) && read_(offset, &value, sizeof(T));
  }
  std::optional<std::string> bytes(std::uint64_t offset, std::uint64_t size, std::uint64_t limit) const {
    if (size > limit || !holds(offset, size)) return std::nullopt;
    std::string text(size, '\0');
    if (size > 0 && !read_(offset, text.data(), size)) return std::nullopt;
    return text;
  }

 private:
  std::uint64_t size_;
  const ReadBytes& read_;
};

/// The GNU build id among ELF notes, in hexadecimal digits; empty when there is none.
std::string build_id_in(std::string_view notes) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) head;
    std::memcpy(&head, notes.data(), sizeof(head));
    notes.remove_prefix(sizeof(head));
    const std::uint64_t name = (std::uint64_t{head.n_namesz} + 3) & ~std::uint64_t{3};
    const std::uint64_t body = (std::uint64_t{head.n_descsz} + 3) & ~std::uint64_t{3};
    if (name > notes.size() || head.n_descsz > notes.size() - name) return {};
    if (head.n_type == NT_GNU_BUILD_ID && notes.substr(0, head.n_namesz) == std::string_view("GNU\0", 4)) {
      std::string id;
      for (const char c : notes.substr(name, head.n_descsz)) id += fmt::format("{:02x}", static_cast<unsigned char>(c));
      return id;
    }
    if (body > notes.size() - name) return {};
    notes.remove_prefix(name + body);
  }
  return {};
}

Result<std::string> find_build_id(const Reader& file, const Elf64_Ehdr& head) {
  if (head.e_phnum > 0 && head.e_phentsize != sizeof(Elf64_Phdr)) return refuse("damaged library: odd program headers");
  if (!file.holds(head.e_phoff, std::uint64_t{head.e_phnum} * sizeof(Elf64_Phdr))) {
    return refuse("damaged library: program headers lie outside the file");
  }
  for (std::uint64_t i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!file.get(head.e_phoff + i * sizeof(segment), segment)) return refuse("cannot be read");
    if (segment.p_type != PT_NOTE) continue;
    const auto notes = file.bytes(segment.p_offset, segment.p_filesz, note_limit);
    if (!notes) return refuse("damaged library: notes lie outside the file");
    if (std::string id = build_id_in(*notes); !id.empty()) return id;
  }
  return std::string();
}

}  // namespace

Result<ElfFacts> read_elf(std::uint64_t size, const ReadBytes& read) {
  const Reader file(size, read);
  Elf64_Ehdr head;
  if (!file.get(0, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
    return refuse("not a shared library (no ELF header)");
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_type != ET_DYN) {
    return refuse("not a 64-bit little-endian shared library");
  }
  ElfFacts facts;
  auto id = find_build_id(file, head);
  if (!id) return pass(id);
  facts.build_id = *std::move(id);

  if (head.e_shoff == 0 || head.e_shnum == 0) return facts;
  if (head.e_shentsize != sizeof(Elf64_Shdr) || head.e_shstrndx >= head.e_shnum)
    return refuse("damaged library: odd section headers");
  if (!file.holds(head.e_shoff, std::uint64_t{head.e_shnum} * sizeof(Elf64_Shdr))) {
    return refuse("damaged library: section headers lie outside the file (was it copied whole?)");
  }
  const auto section = [&](std::uint64_t i, Elf64_Shdr& s) { return file.get(head.e_shoff + i * sizeof(Elf64_Shdr), s); };
  Elf64_Shdr names_section;
  if (!section(head.e_shstrndx, names_section)) return refuse("cannot be read");
  const auto names = file.bytes(names_section.sh_offset, names_section.sh_size, names_limit);
  if (!names) return refuse("damaged library: section names lie outside the file");
  for (std::uint64_t i = 0; i < head.e_shnum; ++i) {
    Elf64_Shdr s;
    if (!section(i, s)) return refuse("cannot be read");
    constexpr std::string_view wanted(".moiety.build\0", 14);
    if (s.sh_name >= names->size() || std::string_view(*names).substr(s.sh_name, wanted.size()) != wanted) continue;
    if (s.sh_type == SHT_NOBITS) return refuse("damaged library: the build tag has no content");
    auto tag = file.bytes(s.sh_offset, s.sh_size, tag_limit);
    if (!tag) return refuse("damaged library: the build tag lies outside the file or is too long");
    tag->resize(std::strlen(tag->c_str()));
    facts.has_tag = true;
    facts.build_tag = *std::move(tag);
    break;
  }
  return facts;
}

Result<ElfFacts> read_elf(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return fail(ErrorKind::failed, fmt::format("cannot be read: {}", std::strerror(errno)));
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd);
    return refuse("not a regular file");
  }
  const ReadBytes read = [fd](std::uint64_t offset, void* destination, std::uint64_t size) {
    auto* out = static_cast<char*>(destination);
    while (size > 0) {
      const ssize_t n = ::pread(fd, out, size, static_cast<off_t>(offset));
      if (n <= 0) return false;
      out += n, offset += static_cast<std::uint64_t>(n), size -= static_cast<std::uint64_t>(n);
    }
    return true;
  };
  auto facts = read_elf(static_cast<std::uint64_t>(status.st_size), read);
  ::close(fd);
  return facts;
}

std::string loaded_build_id(const std::string& name) {
  struct Search {
    const std::string& name;
    std::string id;
  } search{name, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& s = *static_cast<Search*>(data);
        const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
        const std::string_view file = path.substr(path.rfind('/') + 1);
        if (file.substr(0, s.name.size()) != s.name) return 0;
        for (int i = 0; i < info->dlpi_phnum && s.id.empty(); ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_NOTE) continue;
          // The loader's own map of the library: an address, not a number of ours.
          const auto* notes = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
          s.id = build_id_in({notes, segment.p_memsz});
        }
        return 1;
      },
      &search);
  return search.id;
}

}  // namespace moiety::engine
