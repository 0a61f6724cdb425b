#include "kernel/data/packages/inflate.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

namespace moiety::data {
namespace {

class Stream {
 public:
  explicit Stream(int window_bits) { ready_ = inflateInit2(&stream_, window_bits) == Z_OK; }
  ~Stream() {
    if (ready_) inflateEnd(&stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Appends one stream to `out` and returns how many bytes of `bytes` it took.
  Result<std::size_t> read(std::string_view bytes, std::size_t limit, std::string& out) {
    if (!ready_) return fail(ErrorKind::environment, "not enough memory to decompress");
    if (bytes.size() > std::numeric_limits<uInt>::max()) return fail(ErrorKind::failed, "compressed data longer than 4 GiB");
    // zlib never writes through next_in; its interface only lacks the const.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    std::array<char, 1 << 16> buffer;
    for (;;) {
      stream_.next_out = reinterpret_cast<Bytef*>(buffer.data());
      stream_.avail_out = static_cast<uInt>(buffer.size());
      const int code = inflate(&stream_, Z_NO_FLUSH);
      const std::size_t got = buffer.size() - stream_.avail_out;
      if (got > limit - std::min(limit, out.size()))
        return fail(ErrorKind::failed, fmt::format("decompresses to more than {} bytes", limit));
      out.append(buffer.data(), got);
      if (code == Z_STREAM_END) return bytes.size() - stream_.avail_in;
      if (code == Z_BUF_ERROR || (code == Z_OK && got == 0 && stream_.avail_in == 0))
        return fail(ErrorKind::failed, "compressed data ends too early");
      if (code != Z_OK)
        return fail(ErrorKind::failed,
                    fmt::format("damaged compressed data ({})", stream_.msg != nullptr ? stream_.msg : "zlib"));
    }
  }

 private:
  z_stream stream_{};
  bool ready_ = false;
};

}  // namespace

Result<std::string> gunzip(std::string_view bytes, std::size_t limit) {
  constexpr int gzip_window = 15 + 16;
  std::string out;
  do {
    const auto taken = Stream(gzip_window).read(bytes, limit, out);
    if (!taken) return pass(taken);
    bytes.remove_prefix(*taken);
  } while (!bytes.empty());
  return out;
}

Result<std::string> inflate_zlib(std::string_view bytes, std::size_t limit, std::size_t* consumed) {
  std::string out;
  const auto taken = Stream(15).read(bytes, limit, out);
  if (!taken) return pass(taken);
  if (consumed != nullptr) *consumed = *taken;
  return out;
}

}  // namespace moiety::data
