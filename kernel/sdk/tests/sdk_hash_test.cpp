#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "kernel/base/files.h"
#include "kernel/base/hash.h"
#include "kernel/base/text.h"
#include "moiety/build_tag.h"

namespace moiety {
namespace {

// The tag stays honest only because it hashes the bytes that this program was compiled from.
TEST(BuildTag, P06_sdk_hash_is_that_of_the_header_bytes) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(MOIETY_SDK_FOLDER)) {
    if (entry.path().extension() == ".h") names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  ASSERT_GE(names.size(), 10U);
  std::string list;
  for (const std::string& name : names) {
    const auto hash = sha256_of_file(std::string(MOIETY_SDK_FOLDER) + "/" + name);
    ASSERT_TRUE(hash) << name;
    list += *hash + "  " + name + "\n";
  }
  EXPECT_EQ(sha256(list), MOIETY_SDK_HASH);
}

// A plugin compiles in seconds and breaks seldom as long as what it includes is small: no header of LibTorch but that of a
// tensor.
TEST(Headers, P07_the_interface_is_small_and_separate) {
  std::size_t seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MOIETY_SDK_FOLDER)) {
    if (entry.path().extension() != ".h") continue;
    const auto text = read_file(entry.path());
    ASSERT_TRUE(text) << entry.path();
    ++seen;
    EXPECT_LE(std::count(text->begin(), text->end(), '\n'), 300) << entry.path();
    for (const std::string& line : split(*text, '\n')) {
      const auto starts = [&](const char* with) { return line.rfind(with, 0) == 0; };
      const bool heavy =
          (starts("#include <ATen/") && !starts("#include <ATen/ops/") && line != "#include <ATen/core/Tensor.h>") ||
          starts("#include <torch/");
      EXPECT_FALSE(heavy) << entry.path() << ": " << line;
      EXPECT_FALSE(starts("#include \"") && !starts("#include \"moiety/")) << entry.path() << ": " << line;
    }
  }
  EXPECT_GE(seen, 10U);
}

TEST(BuildTag, is_key_value_lines) {
  const std::string tag = MOIETY_BUILD_TAG;
  EXPECT_EQ(std::count(tag.begin(), tag.end(), '='), std::count(tag.begin(), tag.end(), '\n'));
  EXPECT_NE(tag.find("\nsdk=" MOIETY_SDK_HASH "\n"), std::string::npos);
  EXPECT_NE(tag.find("\nstandard=201703L\n"), std::string::npos) << tag;
}

}  // namespace
}  // namespace moiety
