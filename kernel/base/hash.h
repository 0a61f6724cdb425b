// SHA-256 content identities, and ULIDs: sortable random ids that two processes never share.
#ifndef MOIETY_KERNEL_BASE_HASH_H_
#define MOIETY_KERNEL_BASE_HASH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kernel/base/result.h"

namespace moiety {

/// Incremental SHA-256. `hex()` ends it: 64 lower-case hexadecimal digits.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  Sha256& update(const void* data, std::size_t size);
  Sha256& update(std::string_view text) { return update(text.data(), text.size()); }
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256(std::string_view text);
Result<std::string> sha256_of_file(const std::string& path);

/// 26 characters of Crockford base 32: 48 bits of milliseconds, 80 random bits.
std::string new_ulid();

}  // namespace moiety

#endif  // MOIETY_KERNEL_BASE_HASH_H_
