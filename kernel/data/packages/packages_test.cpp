#include "kernel/data/packages/packages.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "kernel/base/files.h"
#include "kernel/data/packages/archive.h"
#include "kernel/data/packages/inflate.h"
#include "kernel/data/packages/interruption.h"
#include "kernel/data/packages/process.h"
#include "kernel/data/testing/fixtures.h"

namespace moiety::data {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

bool everything(std::string_view) { return true; }
Status ignore(std::string_view) { return {}; }

TEST(Inflate, members_read_back_and_the_length_of_a_stream_is_told) {
  EXPECT_EQ(gunzip(gzip_file("one ") + gzip_file("two")).value(), "one two");
  const std::string stream = zlib_stream("three");
  std::size_t taken = 0;
  EXPECT_EQ(inflate_zlib(stream + "rest", kInflateLimit, &taken).value(), "three");
  EXPECT_EQ(taken, stream.size());
}

TEST(Inflate, a_small_file_cannot_fill_the_memory) {
  const std::string bomb = gzip_file(std::string(10 << 20, 'a'));
  ASSERT_LT(bomb.size(), 20000u);
  const auto text = gunzip(bomb, 1 << 20);
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().message, HasSubstr("more than 1048576 bytes"));
  EXPECT_FALSE(gunzip(bomb + bomb, 11 << 20)) << "the limit holds for all members together";
}

TEST(Inflate, truncated_and_damaged_data_is_an_error) {
  const std::string whole = gzip_file("a text that is long enough to be cut in many places");
  for (std::size_t length = 0; length < whole.size(); ++length) EXPECT_FALSE(gunzip(whole.substr(0, length))) << length;
  EXPECT_FALSE(gunzip("no gzip at all"));
  EXPECT_FALSE(inflate_zlib(""));
}

TEST(Tar, chosen_files_are_read_from_pieces_of_any_size) {
  const std::string long_name = "usr/" + std::string(150, 'd') + "/file";
  const std::string archive = tar_entry("./usr/a.txt", "alpha") + tar_entry("./usr/", "", '5') +
                              tar_entry("././@LongLink", long_name + '\0', 'L') + tar_entry("truncated", std::string(600, 'x')) +
                              tar_entry("./usr/link", "", '2') + tar_entry("./usr/b.bin", "beta") + tar_end();
  for (const std::size_t piece : {std::size_t{1}, std::size_t{511}, std::size_t{512}, archive.size()}) {
    TarReader reader([](std::string_view path) { return path != "usr/b.bin"; });
    for (std::size_t at = 0; at < archive.size(); at += piece)
      ASSERT_TRUE(reader.add(std::string_view(archive).substr(at, piece)));
    const auto files = reader.finish();
    ASSERT_TRUE(files);
    EXPECT_EQ(files->size(), 2u);
    EXPECT_EQ(files->at("usr/a.txt"), "alpha");
    EXPECT_EQ(files->at(long_name).size(), 600u);
  }
}

TEST(Tar, damaged_archives_are_refused) {
  std::string archive = tar_entry("file", "content") + tar_end();
  TarReader cut(everything);
  ASSERT_TRUE(cut.add(archive.substr(0, 514)));
  EXPECT_FALSE(cut.finish());
  archive[3] = 'X';
  TarReader changed(everything);
  EXPECT_FALSE(changed.add(archive));
  TarReader too_large(everything, 4);
  EXPECT_FALSE(too_large.add(tar_entry("file", "content")));
}

TEST(Archive, a_package_is_read_and_a_broken_one_is_named) {
  const TemporaryFolder folder;
  const auto deb = make_deb(folder.path(), "owls", "1.0", {{"usr/share/owls/one.txt", "hoot"}, {"usr/share/other", "no"}});
  const auto files = read_package(deb, [](std::string_view path) { return matches("*/owls/*.txt", path); });
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(*files, (Files{{"usr/share/owls/one.txt", "hoot"}}));
  ASSERT_TRUE(write_file(folder / "bad_1_all.deb", "no package"));
  const auto bad = read_package(folder / "bad_1_all.deb", everything);
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, HasSubstr("bad_1_all.deb"));
}

TEST(Process, output_errors_exit_code_and_signal_are_told) {
  std::string output;
  const auto sink = [&](std::string_view piece) {
    output += piece;
    return Status();
  };
  auto outcome = run_program({"sh", "-c", "echo out; echo err >&2; exit 3"}, sink);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(output, "out\n");
  EXPECT_EQ(outcome->errors, "err\n");
  EXPECT_EQ(outcome->exit_code, 3);
  EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}, ignore)->exit_code, 128 + 9);
}

TEST(Process, arguments_are_never_read_by_a_shell) {
  std::string output;
  const auto outcome = run_program({"echo", "$HOME; `false` && *"}, [&](std::string_view piece) {
    output += piece;
    return Status();
  });
  ASSERT_TRUE(outcome);
  EXPECT_EQ(output, "$HOME; `false` && *\n");
}

TEST(Process, a_program_that_is_not_there_is_an_environment_error) {
  const auto outcome = run_program({"moiety-no-such-program"}, ignore);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().kind, ErrorKind::environment);
  EXPECT_THAT(outcome.error().message, HasSubstr("moiety-no-such-program"));
}

TEST(Process, a_sink_that_fails_ends_the_program) {
  const auto outcome = run_program({"yes"}, [](std::string_view) { return Status(fail(ErrorKind::failed, "enough")); });
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().message, "enough");
}

TEST(Packages, file_names_tell_name_and_version) {
  const auto package = parse_package_file_name("/x/fortunes_1%3a1.99.1-7.3_all.deb");
  EXPECT_EQ(package.name, "fortunes");
  EXPECT_EQ(package.version, "1:1.99.1-7.3");
  EXPECT_EQ(parse_package_file_name("/x/notes.deb").name, "");
  EXPECT_EQ(parse_package_file_name("/x/a_1_all.deb.part").name, "");
}

/// A PATH on which `apt-get` is the given script.
class FakeApt {
 public:
  explicit FakeApt(const std::string& script) : old_(std::getenv("PATH")) {
    const std::string file = folder_ / "apt-get";
    EXPECT_TRUE(write_file(file, "#!/bin/sh\n" + script));
    fs::permissions(file, fs::perms(0755));
    ::setenv("PATH", (folder_.path() + ":" + old_).c_str(), 1);
  }
  ~FakeApt() { ::setenv("PATH", old_.c_str(), 1); }

 private:
  TemporaryFolder folder_;
  std::string old_;
};

TEST(Packages, what_is_in_the_store_is_not_fetched_again) {
  const FakeApt apt("exit 1");
  const TemporaryFolder store;
  make_deb(store / "packages", "owls", "1.0", {{"a", "b"}});
  Progress progress;
  const auto found = obtain_packages({"owls"}, store.path(), progress);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->at("owls").version, "1.0");
}

TEST(Packages, downloads_appear_whole_and_the_folder_of_the_download_goes) {
  const FakeApt apt("touch owls_2_all.deb other_3_all.deb");
  const TemporaryFolder store;
  Progress progress;
  const auto found = obtain_packages({"owls"}, store.path(), progress);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->at("owls").path, store / "packages/owls_2_all.deb");
  EXPECT_FALSE(fs::exists(store / "packages/.download"));
}

TEST(Packages, private_lists_are_used_when_the_systems_do_not_serve) {
  const FakeApt apt("case \"$*\" in *update*) exit 0;; *Dir::State::lists*download*) touch owls_2_all.deb;; *) exit 100;; esac");
  const TemporaryFolder store;
  Progress progress;
  EXPECT_TRUE(obtain_packages({"owls"}, store.path(), progress));
  EXPECT_TRUE(fs::exists(store / "apt/lists/partial"));
}

TEST(Packages, an_unknown_package_is_named_with_the_line_to_type) {
  const FakeApt apt("case \"$*\" in *update*) exit 0;; esac; echo 'E: Unable to locate package owls' >&2; exit 100");
  const TemporaryFolder store;
  Progress progress;
  const auto found = obtain_packages({"cats", "owls"}, store.path(), progress);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().exit_code(), 3);
  EXPECT_EQ(found.error().message, "cannot download the Debian package owls: Unable to locate package owls");
  EXPECT_EQ(found.error().hint,
            fmt::format("check the network, or type: cd {} && apt-get download cats owls", store / "packages"));
}

TEST(Packages, a_network_that_is_down_is_told_apart_from_an_unknown_package) {
  const FakeApt apt(
      "case \"$*\" in *update*) echo 'E: Could not connect to the mirror' >&2;; *) echo 'E: Unable to locate package owls' >&2;; "
      "esac; exit 100");
  const TemporaryFolder store;
  Progress progress;
  const auto found = obtain_packages({"owls"}, store.path(), progress);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().exit_code(), 3);
  EXPECT_EQ(found.error().message, "cannot download the Debian package owls: Could not connect to the mirror");
}

TEST(Packages, a_download_that_dies_leaves_nothing_half) {
  const FakeApt apt(
      "case \"$*\" in *download*) printf half > owls_2_all.deb; echo 'E: Failed to fetch owls' >&2; exit 100;; esac");
  const TemporaryFolder store;
  Progress progress;
  const auto found = obtain_packages({"owls"}, store.path(), progress);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().exit_code(), 3);
  EXPECT_TRUE(fs::is_empty(store / "packages"));
}

TEST(Interruption, a_signal_removes_what_is_unfinished_and_exits_130) {
  const TemporaryFolder folder;
  const std::string place = folder / "work.part";
  const pid_t child = ::fork();
  if (child == 0) {
    watch_for_interruption();
    const auto guarded = GuardedFolder::make(place);
    if (!guarded || !write_file(place + "/half", "half")) ::_exit(1);
    ::usleep(20'000'000);
    ::_exit(2);
  }
  for (int i = 0; i < 1000 && !fs::exists(place + "/half"); ++i) ::usleep(10'000);
  ASSERT_TRUE(fs::exists(place + "/half"));
  ::kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_FALSE(fs::exists(place));
}

TEST(Interruption, leftovers_of_a_killed_process_are_removed_first) {
  const TemporaryFolder folder;
  ASSERT_TRUE(make_folders(folder / "work.part"));
  ASSERT_TRUE(write_file(folder / "work.part/old", "old"));
  {
    const auto guarded = GuardedFolder::make(folder / "work.part");
    ASSERT_TRUE(guarded);
    EXPECT_TRUE(fs::is_empty(folder / "work.part"));
  }
  EXPECT_FALSE(fs::exists(folder / "work.part"));
}

}  // namespace
}  // namespace moiety::data
