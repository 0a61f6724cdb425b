#include "kernel/base/hash.h"

#include <gtest/gtest.h>

#include <set>

namespace moiety {
namespace {

TEST(Hash, sha256_of_the_standard_examples) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256().update("a").update("bc").hex(), sha256("abc"));
}

TEST(Hash, a_missing_file_is_an_error_that_names_it) {
  const auto hash = sha256_of_file("/nonexistent/file");
  ASSERT_FALSE(hash);
  EXPECT_EQ(hash.error().message, "cannot read /nonexistent/file");
}

TEST(Hash, T05_ulids_differ_and_sort_by_time) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(new_ulid());
  EXPECT_EQ(ids.size(), 1000u);
  for (const auto& id : ids) EXPECT_EQ(id.size(), 26u);
  EXPECT_EQ(ids.begin()->substr(0, 6), ids.rbegin()->substr(0, 6));
}

}  // namespace
}  // namespace moiety
