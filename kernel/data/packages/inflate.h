// Decompression with a bound, so that a small file cannot fill the memory.
#ifndef MOIETY_KERNEL_DATA_PACKAGES_INFLATE_H_
#define MOIETY_KERNEL_DATA_PACKAGES_INFLATE_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "kernel/base/result.h"

namespace moiety::data {

/// More than any text of the corpora that are in use (the largest, gcide, is 50 MB).
inline constexpr std::size_t kInflateLimit = std::size_t{256} << 20;

/// All members of a gzip file, dictzip included. Truncated, damaged or larger than `limit` bytes: an error.
Result<std::string> gunzip(std::string_view bytes, std::size_t limit = kInflateLimit);

/// One zlib stream at the start of `bytes`; `consumed` receives the length of the stream.
Result<std::string> inflate_zlib(std::string_view bytes, std::size_t limit = kInflateLimit, std::size_t* consumed = nullptr);

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_PACKAGES_INFLATE_H_
