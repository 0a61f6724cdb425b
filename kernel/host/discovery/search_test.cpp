#include "kernel/host/discovery/search.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "kernel/base/files.h"

namespace moiety::host {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names(const Search& search) {
  std::vector<std::string> found;
  for (const auto& candidate : search.candidates) found.push_back(fs::path(candidate.identity.path).filename().string());
  return found;
}
using Names = std::vector<std::string>;

TEST(Search, P11_only_files_named_moiety_so_are_looked_at) {
  TemporaryFolder folder;
  for (const char* name :
       {"b.moiety.so", "a.moiety.so", "helper.so", "libx.so.1", "notes.txt", ".moiety.so", "c.moiety.so.bak", "moiety.so"})
    ASSERT_TRUE(write_file(folder / name, "x"));
  ASSERT_TRUE(make_folders(folder / "deeper"));
  ASSERT_TRUE(write_file(folder / "deeper/d.moiety.so", "x"));
  const auto search = find_plugin_files({{folder.path(), "--plugin-path"}});
  EXPECT_EQ(names(search), (Names{"a.moiety.so", "b.moiety.so"}));
  ASSERT_EQ(search.folders.size(), 1U);
  EXPECT_EQ(search.folders[0].files, 2);
  EXPECT_EQ(search.folders[0].problem, "");
}

TEST(Search, P14_paths_are_absolute_whatever_was_typed) {
  TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "a.moiety.so", "x"));
  const auto before = fs::current_path();
  fs::current_path(folder.path());
  for (const char* typed : {".", "a.moiety.so", "./a.moiety.so"}) {
    const auto search = find_plugin_files({{typed, "--plugin-path"}});
    ASSERT_EQ(search.candidates.size(), 1U) << typed;
    EXPECT_TRUE(fs::path(search.candidates[0].identity.path).is_absolute()) << typed;
  }
  fs::current_path(before);
}

TEST(Search, P10_loops_unreadable_and_strange_files_are_kept_with_their_reason) {
  TemporaryFolder folder;
  fs::create_symlink("loop.moiety.so", folder / "loop.moiety.so");
  fs::create_symlink("nowhere", folder / "dangling.moiety.so");
  ASSERT_TRUE(make_folders(folder / "folder.moiety.so"));
  ASSERT_EQ(::mkfifo((folder / "pipe.moiety.so").c_str(), 0600), 0);
  ASSERT_TRUE(write_file(folder / "good.moiety.so", "x"));
  ASSERT_TRUE(write_file(folder / "locked.moiety.so", "x"));
  ASSERT_EQ(::chmod((folder / "locked.moiety.so").c_str(), 0), 0);
  const auto search = find_plugin_files({{folder.path(), "--plugin-path"}});
  ASSERT_EQ(search.candidates.size(), 6U);
  for (const auto& candidate : search.candidates) {
    const auto name = fs::path(candidate.identity.path).filename().string();
    std::string expected;
    if (name == "loop.moiety.so") expected = "Too many levels of symbolic links";
    if (name == "dangling.moiety.so") expected = "No such file or directory";
    if (name == "folder.moiety.so" || name == "pipe.moiety.so") expected = "not a regular file";
    if (name == "locked.moiety.so" && ::geteuid() != 0) expected = "Permission denied";  // root may read everything
    EXPECT_EQ(candidate.problem, expected) << name;
  }
}

TEST(Search, a_folder_that_is_missing_or_a_loop_hides_no_other) {
  TemporaryFolder folder;
  ASSERT_TRUE(make_folders(folder / "good"));
  ASSERT_TRUE(write_file(folder / "good/a.moiety.so", "x"));
  fs::create_directory_symlink("loop", folder / "loop");
  const auto search = find_plugin_files({{folder / "missing", "x"}, {folder / "loop", "x"}, {folder / "good", "x"}});
  EXPECT_EQ(names(search), Names{"a.moiety.so"});
  EXPECT_EQ(search.folders[0].problem, "No such file or directory");
  EXPECT_EQ(search.folders[1].problem, "Too many levels of symbolic links");
}

TEST(Search, what_the_command_line_names_must_be_there) {
  TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "notes.txt", "x"));
  ASSERT_TRUE(write_file(folder / "a.moiety.so", "x"));
  const auto check = [&](const std::string& name, const char* origin) {
    return check_named(find_plugin_files({{folder / name, origin}}));
  };
  EXPECT_TRUE(check("", "--plugin-path"));
  EXPECT_TRUE(check("a.moiety.so", "--plugin-path"));
  EXPECT_TRUE(check("none", "MOIETY_PLUGIN_PATH"));
  for (const auto& [name, problem] :
       std::vector<std::pair<std::string, std::string>>{{"none", "No such file or directory"},
                                                        {"none.moiety.so", "No such file or directory"},
                                                        {"notes.txt", "Not a directory"}}) {
    const auto status = check(name, "--plugin-path");
    ASSERT_FALSE(status) << name;
    EXPECT_EQ(status.error().kind, ErrorKind::usage);
    EXPECT_EQ(status.error().message, "--plugin-path " + (folder / name) + ": " + problem);
  }
}

TEST(Search, a_file_reached_twice_is_one) {
  TemporaryFolder folder;
  ASSERT_TRUE(make_folders(folder / "one"));
  ASSERT_TRUE(write_file(folder / "one/a.moiety.so", "x"));
  fs::create_directory_symlink(folder / "one", folder / "two");
  fs::create_symlink("a.moiety.so", folder / "one/b.moiety.so");
  EXPECT_EQ(names(find_plugin_files({{folder / "one", ""}, {folder / "two", ""}, {folder / "one", ""}})), Names{"a.moiety.so"});
}

TEST(Search, the_order_is_the_command_line_the_environment_the_trusted_recipe_and_the_shipped_folders) {
  ::setenv("MOIETY_PLUGIN_PATH", "/c:/d", 1);
  const auto order = search_order({"/a:/b"}, {"/e"});
  ::unsetenv("MOIETY_PLUGIN_PATH");
  ASSERT_GE(order.size(), 6U);
  Names paths;
  for (std::size_t i = 0; i < 5; ++i) paths.push_back(order[i].path);
  EXPECT_EQ(paths, (Names{"/a", "/b", "/c", "/d", "/e"}));
  EXPECT_EQ(order[5].origin, "beside moiety");
}

TEST(Search, a_file_is_recognised_until_it_changes) {
  TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "a", "x"));
  const auto first = FileIdentity::of(folder / "a");
  EXPECT_TRUE(first == FileIdentity::of(folder / "a"));
  ASSERT_TRUE(write_file(folder / "a", "y"));  // same size
  EXPECT_FALSE(first == FileIdentity::of(folder / "a"));
}

}  // namespace
}  // namespace moiety::host
