#include "kernel/data/testing/fixtures.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>

#include "kernel/base/files.h"
#include "kernel/data/packages/process.h"

namespace moiety::data {
namespace {

std::string deflate_with(std::string_view text, int window_bits) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  std::string copy(text);
  stream.next_in = reinterpret_cast<Bytef*>(copy.data());
  stream.avail_in = static_cast<uInt>(copy.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace

std::string little(std::uint32_t value, std::size_t width) {
  std::string bytes;
  for (std::size_t i = 0; i < width; ++i) bytes.push_back(static_cast<char>((value >> (8 * i)) & 0xFF));
  return bytes;
}

std::string big(std::uint32_t value) {
  std::string bytes = little(value);
  std::reverse(bytes.begin(), bytes.end());
  return bytes;
}

std::string zlib_stream(std::string_view text) { return deflate_with(text, 15); }
std::string gzip_file(std::string_view text) { return deflate_with(text, 15 + 16); }

std::string tar_entry(const std::string& name, std::string_view content, char type) {
  std::string header(512, '\0');
  header.replace(0, std::min<std::size_t>(name.size(), 100), name.substr(0, 100));
  header.replace(124, 11, fmt::format("{:011o}", content.size()));
  header[156] = type;
  header.replace(257, 5, "ustar");
  header.replace(263, 2, "00");
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
  std::string entry = header + std::string(content);
  entry.resize((entry.size() + 511) / 512 * 512, '\0');
  return entry;
}

std::string tar_end() { return std::string(1024, '\0'); }

std::string make_deb(const std::string& folder, const std::string& name, const std::string& version,
                     const std::vector<std::pair<std::string, std::string>>& files) {
  const TemporaryFolder tree;
  EXPECT_TRUE(make_folders(tree / "DEBIAN"));
  EXPECT_TRUE(write_file(
      tree / "DEBIAN/control",
      fmt::format("Package: {}\nVersion: {}\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: test\n",
                  name, version)));
  for (const auto& [path, content] : files) {
    EXPECT_TRUE(make_folders(std::filesystem::path(tree / path).parent_path().string()));
    EXPECT_TRUE(write_file(tree / path, content));
  }
  EXPECT_TRUE(make_folders(folder));
  const std::string deb = fmt::format("{}/{}_{}_all.deb", folder, name, version);
  std::filesystem::permissions(tree.path(), std::filesystem::perms(0755));
  const auto outcome = run_program({"dpkg-deb", "--root-owner-group", "-Zgzip", "--build", tree.path(), deb},
                                   [](std::string_view) { return Status(); });
  EXPECT_TRUE(outcome && outcome->exit_code == 0) << (outcome ? outcome->errors : outcome.error().message);
  return deb;
}

void expect_survives_damage(const Format& format, const std::string& path, const Files& files) {
  for (const auto& [damaged_path, bytes] : files) {
    const std::size_t step = std::max<std::size_t>(1, bytes.size() / 200);
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      auto shortened = files;
      shortened[damaged_path].resize(at);
      (void)format.extract(path, shortened);
      for (const unsigned char value : {0x00, 0x7F, 0xFF}) {
        auto changed = files;
        changed[damaged_path][at] = static_cast<char>(value);
        (void)format.extract(path, changed);
      }
    }
    auto missing = files;
    missing.erase(damaged_path);
    EXPECT_FALSE(format.extract(path, missing)) << "without " << damaged_path;
  }
}

std::vector<std::string> texts_of(const Result<std::vector<Entry>>& entries) {
  std::vector<std::string> texts;
  if (!entries) {
    ADD_FAILURE() << entries.error().message;
    return texts;
  }
  for (const auto& entry : *entries) texts.push_back(entry.text);
  return texts;
}

}  // namespace moiety::data
