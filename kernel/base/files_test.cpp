#include "kernel/base/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace moiety {
namespace {

TEST(Files, a_file_reads_back_as_written_and_leaves_no_temporary) {
  const TemporaryFolder folder;
  const std::string content("a\0b\n", 4);
  ASSERT_TRUE(write_file(folder / "x", content));
  EXPECT_EQ(read_file(folder / "x").value(), content);
  ASSERT_TRUE(write_file(folder / "x", "second"));
  EXPECT_EQ(read_file(folder / "x").value(), "second");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Files, a_full_disk_is_an_environment_error_with_advice_and_leaves_the_old_file) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "x", "old"));
  // The temporary file is a device on which every write fails for want of space.
  const std::string temporary = (folder / "x.tmp.") + std::to_string(::getpid());
  ASSERT_EQ(::symlink("/dev/full", temporary.c_str()), 0);
  const auto status = write_file(folder / "x", "new");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::environment);
  EXPECT_EQ(status.error().message, "cannot write " + (folder / "x") + ": the disk is full");
  EXPECT_EQ(status.error().hint, "free some space, then run the same command again");
  EXPECT_EQ(read_file(folder / "x").value(), "old");
  EXPECT_FALSE(std::filesystem::is_symlink(temporary));
}

TEST(Files, publishing_twice_keeps_the_first) {
  const TemporaryFolder folder;
  for (const char* name : {"first", "second"}) {
    ASSERT_TRUE(make_folders(folder / name));
    ASSERT_TRUE(write_file(folder / name + "/file", name));
    ASSERT_TRUE(publish_folder(folder / name, folder / "deep/place"));
  }
  EXPECT_EQ(read_file(folder / "deep/place/file").value(), "first");
  EXPECT_FALSE(std::filesystem::exists(folder / "second"));
}

TEST(Files, a_temporary_folder_that_cannot_be_made_names_TMPDIR) {
  const TemporaryFolder folder;
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("TMPDIR", (folder / "none").c_str(), 1);
  const auto made = TemporaryFolder::make();
  ::setenv("TMPDIR", "", 1);
  const auto empty = TemporaryFolder::make();
  before != nullptr ? ::setenv("TMPDIR", kept.c_str(), 1) : ::unsetenv("TMPDIR");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::environment);
  EXPECT_EQ(made.error().message, "cannot make a temporary folder in " + (folder / "none") + ": No such file or directory");
  EXPECT_NE(made.error().hint.find("TMPDIR"), std::string::npos);
  ASSERT_TRUE(empty);
  EXPECT_EQ((*empty)->path().rfind("/tmp/moiety-", 0), 0U) << (*empty)->path();
}

}  // namespace
}  // namespace moiety
