#include "kernel/data/packages/archive.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "kernel/base/text.h"
#include "kernel/data/packages/process.h"

namespace moiety::data {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::uint64_t kLongestName = 64 << 10;

// Fields of a tar header: offset and length (POSIX.1-1988 ustar).
constexpr std::pair<std::size_t, std::size_t> kName = {0, 100}, kSize = {124, 12}, kChecksum = {148, 8}, kMagic = {257, 5},
                                              kPrefix = {345, 155};
constexpr std::size_t kType = 156;

std::string_view field(std::string_view block, std::pair<std::size_t, std::size_t> place) {
  const auto text = block.substr(place.first, place.second);
  return text.substr(0, text.find('\0'));
}

/// Octal digits between optional spaces; false for anything else (base-256 sizes too: no package holds 8 GiB files).
bool read_octal(std::string_view text, std::uint64_t& value) {
  value = 0;
  bool digits = false;
  for (const char c : text) {
    if (c == ' ') {
      if (digits) break;
      continue;
    }
    if (c < '0' || c > '7') return false;
    digits = true;
    value = value * 8 + static_cast<std::uint64_t>(c - '0');
  }
  return digits;
}

bool checksum_is_right(std::string_view block) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const bool own_field = i >= kChecksum.first && i < kChecksum.first + kChecksum.second;
    sum += own_field ? ' ' : static_cast<unsigned char>(block[i]);
  }
  std::uint64_t stated = 0;
  return read_octal(field(block, kChecksum), stated) && stated == sum;
}

std::string without_dot(std::string name) {
  if (name.substr(0, 2) == "./") name.erase(0, 2);
  return name;
}

}  // namespace

TarReader::TarReader(Chooser wanted, std::uint64_t limit) : wanted_(std::move(wanted)), limit_(limit) {}

Status TarReader::read_header(std::string_view block) {
  if (std::all_of(block.begin(), block.end(), [](char c) { return c == 0; })) {
    ended_ = true;
    return {};
  }
  std::uint64_t size = 0;
  if (!checksum_is_right(block) || !read_octal(field(block, kSize), size)) return fail(ErrorKind::failed, "damaged tar header");
  type_ = block[kType];
  const bool regular = type_ == '0' || type_ == 0;
  const bool long_name = type_ == 'L';
  name_ = field(block, kName);
  if (const auto folder = field(block, kPrefix);
      field(block, kMagic) == "ustar" && block[kMagic.first + 5] == 0 && !folder.empty())
    name_ = std::string(folder) + "/" + name_;
  if (!long_name && !long_name_.empty()) name_ = std::exchange(long_name_, {});
  name_ = without_dot(name_);
  if (long_name && size > kLongestName) return fail(ErrorKind::failed, "tar entry with a name that is too long");
  keep_ = long_name || (regular && wanted_(name_));
  if (keep_ && size > limit_ - kept_)
    return fail(ErrorKind::failed, fmt::format("{} makes more than {} MiB of chosen files", name_, limit_ >> 20));
  if (keep_) kept_ += size;
  content_.clear();
  remaining_ = size;
  padding_ = (kBlock - size % kBlock) % kBlock;
  if (remaining_ == 0) end_entry();
  return {};
}

void TarReader::end_entry() {
  if (!keep_) return;
  keep_ = false;
  if (type_ == 'L') {
    long_name_ = content_.substr(0, content_.find('\0'));
  } else {
    files_[name_] = std::move(content_);
  }
  content_ = {};
}

Status TarReader::add(std::string_view piece) {
  while (!piece.empty() && !ended_) {
    if (remaining_ > 0) {
      const auto part = piece.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(remaining_, piece.size())));
      if (keep_) content_ += part;
      remaining_ -= part.size();
      piece.remove_prefix(part.size());
      if (remaining_ == 0) end_entry();
    } else if (padding_ > 0) {
      const auto skipped = std::min<std::uint64_t>(padding_, piece.size());
      padding_ -= skipped;
      piece.remove_prefix(static_cast<std::size_t>(skipped));
    } else {
      const auto part = piece.substr(0, kBlock - pending_.size());
      pending_ += part;
      piece.remove_prefix(part.size());
      if (pending_.size() < kBlock) return {};
      const std::string block = std::exchange(pending_, {});
      if (auto status = read_header(block); !status) return status;
    }
  }
  return {};
}

Result<Files> TarReader::finish() {
  if (!ended_ && (remaining_ > 0 || !pending_.empty()))
    return fail(ErrorKind::failed, "the package ends in the middle of a file");
  return std::move(files_);
}

Result<Files> read_package(const std::string& deb, const Chooser& wanted) {
  TarReader reader(wanted);
  const auto explain = [&](const std::string& what) {
    return fail(ErrorKind::failed,
                fmt::format("the package {} cannot be read: {}", std::filesystem::path(deb).filename().string(), what),
                "delete it and run the same command again: " + deb);
  };
  const auto outcome =
      run_program({"dpkg-deb", "--fsys-tarfile", deb}, [&](std::string_view piece) { return reader.add(piece); });
  if (!outcome) return outcome.error().kind == ErrorKind::environment ? pass(outcome) : explain(outcome.error().message);
  if (outcome->exit_code != 0) return explain(printable(outcome->errors));
  auto files = reader.finish();
  if (!files) return explain(files.error().message);
  return files;
}

bool matches(std::string_view pattern, std::string_view path) {
  return ::fnmatch(std::string(pattern).c_str(), std::string(path).c_str(), 0) == 0;
}

}  // namespace moiety::data
