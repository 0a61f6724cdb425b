// What a library says about itself, read from its bytes before anything of it is opened or run.
#ifndef MOIETY_KERNEL_ENGINE_PLUGINS_ELF_H_
#define MOIETY_KERNEL_ENGINE_PLUGINS_ELF_H_

#include <cstdint>
#include <functional>
#include <string>

#include "kernel/base/result.h"

namespace moiety::engine {

struct ElfFacts {
  bool has_tag = false;   ///< there is a section .moiety.build
  std::string build_tag;  ///< its text
  std::string build_id;   ///< the GNU build id in hexadecimal digits, or empty
};

/// Reads an x86-64 or other little-endian ELF64 file. Truncated, damaged and hostile files give an error; nothing is trusted.
Result<ElfFacts> read_elf(const std::string& path);

/// The same for bytes that `read(offset, destination, size)` gives: true when all could be read. `size` is that of the whole
/// file.
using ReadBytes = std::function<bool(std::uint64_t offset, void* destination, std::uint64_t size)>;
Result<ElfFacts> read_elf(std::uint64_t size, const ReadBytes& read);

/// GNU build id of a library that is loaded in this process and whose file name begins with `name` ("libtorch_cpu.so"); empty:
/// not there.
std::string loaded_build_id(const std::string& name);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_PLUGINS_ELF_H_
