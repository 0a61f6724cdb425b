#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "kernel/base/hash.h"
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

TEST(BuildTag, is_key_value_lines) {
  const std::string tag = MOIETY_BUILD_TAG;
  EXPECT_EQ(std::count(tag.begin(), tag.end(), '='), std::count(tag.begin(), tag.end(), '\n'));
  EXPECT_NE(tag.find("\nsdk=" MOIETY_SDK_HASH "\n"), std::string::npos);
  EXPECT_NE(tag.find("\nstandard=201703L\n"), std::string::npos) << tag;
}

}  // namespace
}  // namespace moiety
