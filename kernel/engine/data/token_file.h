// Token files, mapped into memory: the prepared corpus and task as the engine reads them.
#ifndef MOIETY_KERNEL_ENGINE_DATA_TOKEN_FILE_H_
#define MOIETY_KERNEL_ENGINE_DATA_TOKEN_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernel/base/result.h"

namespace moiety::engine {

/// A read-only file of little-endian numbers of one type.
template <class T>
class MappedNumbers {
 public:
  /// The whole file; its size must be a multiple of the number's.
  static Result<MappedNumbers> open(const std::string& path);
  MappedNumbers() = default;
  MappedNumbers(MappedNumbers&& other) noexcept;
  MappedNumbers& operator=(MappedNumbers&& other) noexcept;
  ~MappedNumbers();

  const T* data() const { return data_; }
  std::int64_t size() const { return size_; }
  T operator[](std::int64_t i) const { return data_[i]; }

 private:
  const T* data_ = nullptr;
  std::int64_t size_ = 0;
};

extern template class MappedNumbers<std::uint16_t>;
extern template class MappedNumbers<std::uint64_t>;
extern template class MappedNumbers<std::int32_t>;

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_DATA_TOKEN_FILE_H_
