#include "kernel/data/formats/dictd.h"

#include <cstdint>
#include <set>
#include <utility>

#include "kernel/data/formats/format.h"
#include "kernel/data/text/clean.h"
#include "kernel/data/text/unicode.h"

namespace moiety::data {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t kMostDigits = 8;

bool read_number(std::string_view digits, std::uint64_t& value) {
  value = 0;
  if (digits.empty() || digits.size() > kMostDigits) return false;
  for (const char digit : digits) {
    const std::size_t worth = kDigits.find(digit);
    if (worth == std::string_view::npos) return false;
    value = value * kDigits.size() + worth;
  }
  return true;
}

bool is_about_the_database(std::string_view headword) {
  return headword.substr(0, 11) == "00-database" || headword.substr(0, 10) == "00database";
}

}  // namespace

Result<std::vector<std::string>> read_dictd(const std::string& path, const Files& files) {
  const auto text = content_of(path, files);
  if (!text) return pass(text);
  const auto index = content_of(path.substr(0, path.rfind(".dict")) + ".index", files);
  if (!index) return pass(index);
  std::set<std::pair<std::uint64_t, std::uint64_t>> places;
  for (const auto line : split_lines(*index)) {
    const std::size_t first = line.find('\t');
    const std::size_t second = line.find('\t', first == std::string_view::npos ? first : first + 1);
    if (second == std::string_view::npos || is_about_the_database(line)) continue;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    if (!read_number(line.substr(first + 1, second - first - 1), offset) || !read_number(line.substr(second + 1), length))
      continue;
    if (offset <= text->size() && length <= text->size() - offset) places.emplace(offset, length);
  }
  std::vector<std::string> entries;
  std::uint64_t end = 0;
  for (const auto& [offset, length] : places) {
    // Overlapping entries would repeat text: a hostile index could multiply the file by its number of lines.
    if (offset < end) continue;
    end = offset + length;
    entries.push_back(to_utf8(std::string_view(*text).substr(offset, length)));
  }
  return entries;
}

std::string dictd_main_file(std::string_view path) {
  if (!ends_with(path, ".index")) return std::string(path);
  path.remove_suffix(6);
  return std::string(path) + ".dict.dz";
}

}  // namespace moiety::data
