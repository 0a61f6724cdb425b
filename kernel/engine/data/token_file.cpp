#include "kernel/engine/data/token_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace moiety::engine {

template <class T>
Result<MappedNumbers<T>> MappedNumbers<T>::open(const std::string& path) {
  const auto refuse = [&path](const std::string& why) {
    return fail(ErrorKind::environment, "cannot read " + path + ": " + why,
                "run the recipe again: what is damaged is prepared anew");
  };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return refuse(std::generic_category().message(errno));
  struct stat facts {};
  const bool known = ::fstat(file, &facts) == 0;
  const auto bytes = static_cast<std::size_t>(known ? facts.st_size : 0);
  MappedNumbers numbers;
  if (bytes > 0) {
    void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    ::close(file);
    if (memory == MAP_FAILED) return refuse(std::generic_category().message(errno));
    numbers.data_ = static_cast<const T*>(memory);
    numbers.size_ = static_cast<std::int64_t>(bytes / sizeof(T));
  } else {
    ::close(file);
  }
  if (!known || bytes % sizeof(T) != 0) return refuse("its size is not a whole number of entries");
  return numbers;
}

template <class T>
MappedNumbers<T>::MappedNumbers(MappedNumbers&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

template <class T>
MappedNumbers<T>& MappedNumbers<T>::operator=(MappedNumbers&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

template <class T>
MappedNumbers<T>::~MappedNumbers() {
  if (data_ != nullptr) ::munmap(const_cast<T*>(data_), static_cast<std::size_t>(size_) * sizeof(T));
}

template class MappedNumbers<std::uint16_t>;
template class MappedNumbers<std::uint64_t>;
template class MappedNumbers<std::int32_t>;

}  // namespace moiety::engine
