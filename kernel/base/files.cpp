#include "kernel/base/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace moiety {
namespace fs = std::filesystem;
namespace {

std::string reason(int error) {
  if (error == ENOSPC) return "the disk is full";
  return std::generic_category().message(error);
}

tl::unexpected<Error> system_failure(const char* what, const std::string& path, int error) {
  return fail(ErrorKind::environment, std::string("cannot ") + what + " " + path + ": " + reason(error),
              error == ENOSPC ? "free some space, then run the same command again" : "");
}

/// Closes itself.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }

 private:
  int number_;
};

Status sync_path(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return system_failure("open", path, errno);
  if (::fsync(file.get()) != 0) return system_failure("sync", path, errno);
  return {};
}

Result<std::string> make_temporary_folder() {
  const char* given = std::getenv("TMPDIR");
  const bool named = given != nullptr && *given != '\0';
  std::string path = std::string(named ? given : "/tmp") + "/moiety-XXXXXX";
  if (::mkdtemp(path.data()) != nullptr) return path;
  const int error = errno;
  return fail(ErrorKind::environment,
              std::string("cannot make a temporary folder in ") + (named ? given : "/tmp") + ": " + reason(error),
              named ? "TMPDIR names this place: name a folder there that exists and is writable, or unset it"
                    : "name a folder that exists and is writable with TMPDIR");
}

Status write_all(int descriptor, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return system_failure("write", path, errno);
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return system_failure("read", path, errno);
  std::string content;
  std::array<char, 1 << 16> buffer;
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got == 0) return content;
    if (got < 0) {
      if (errno == EINTR) continue;
      return system_failure("read", path, errno);
    }
    content.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

Status write_file(const std::string& path, std::string_view content) {
  const std::string temporary = path + ".tmp." + std::to_string(::getpid());
  Status status;
  {
    const Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file.valid()) return system_failure("write", path, errno);
    status = write_all(file.get(), content, path);
    if (status && ::fsync(file.get()) != 0) status = system_failure("sync", path, errno);
  }
  if (status && ::rename(temporary.c_str(), path.c_str()) != 0) status = system_failure("write", path, errno);
  if (!status) {
    ::unlink(temporary.c_str());
    return status;
  }
  const fs::path parent = fs::path(path).parent_path();
  return sync_path(parent.empty() ? "." : parent.string());
}

Status make_folders(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return system_failure("create the folder", path, error.value());
  return {};
}

Status publish_folder(const std::string& from, const std::string& to) {
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(from, error); !error && entry != fs::recursive_directory_iterator();
       entry.increment(error)) {
    if (entry->is_regular_file()) {
      if (auto status = sync_path(entry->path().string()); !status) return status;
    }
  }
  if (error) return system_failure("read", from, error.value());
  const std::string parent = fs::path(to).parent_path().string();
  if (auto status = make_folders(parent); !status) return status;
  fs::rename(from, to, error);
  if (error) {
    std::error_code ignored;
    if (!fs::exists(to, ignored)) return system_failure("write", to, error.value());
    fs::remove_all(from, ignored);
  }
  return sync_path(parent);
}

TemporaryFolder::TemporaryFolder() {
  auto path = make_temporary_folder();
  if (!path) throw std::runtime_error(path.error().message);
  path_ = std::move(*path);
}

Result<std::unique_ptr<TemporaryFolder>> TemporaryFolder::make() {
  auto path = make_temporary_folder();
  if (!path) return pass(path);
  return std::unique_ptr<TemporaryFolder>(new TemporaryFolder(std::move(*path)));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace moiety
