// The program itself: exit codes, waiting for another process, interruption.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "kernel/base/files.h"
#include "kernel/data/command/lock.h"
#include "kernel/data/packages/process.h"

namespace moiety::data {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Answer {
  int exit_code;
  std::string output, errors;
};

Answer call(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), MOIETY_DATA_PROGRAM);
  std::string output;
  const auto outcome = run_program(arguments, [&](std::string_view piece) {
    output += piece;
    return Status();
  });
  EXPECT_TRUE(outcome);
  return {outcome->exit_code, output, outcome->errors};
}

std::string request_file(const TemporaryFolder& folder, const std::string& corpus = "debian-8@1") {
  const std::string path = folder / "request.json";
  EXPECT_TRUE(write_file(
      path, "{\"corpus\":{\"use\":\"" + corpus + "\",\"tokenizer\":{\"vocabulary\":4096}},\"tasks\":[\"supersense\"]}"));
  return path;
}

TEST(Program, it_tells_its_version_and_its_use) {
  EXPECT_THAT(call({"--version"}).output, StartsWith("moiety-data "));
  EXPECT_THAT(call({"--help"}).output, HasSubstr("moiety-data prepare"));
  EXPECT_EQ(call({"--help"}).exit_code, 0);
  EXPECT_EQ(call({}).exit_code, 2);
}

TEST(Program, T33_unknown_words_and_options_are_errors) {
  EXPECT_EQ(call({"prepair"}).exit_code, 2);
  EXPECT_THAT(call({"prepair"}).errors, HasSubstr("did you mean `prepare`?"));
  EXPECT_EQ(call({"list", "--no-such-option"}).exit_code, 2);
  EXPECT_EQ(call({"list", "surplus"}).exit_code, 2);
  EXPECT_EQ(call({"prepare"}).exit_code, 2);
  EXPECT_EQ(call({"prepare", "--recipe-json", "/nonexistent"}).exit_code, 2);
  EXPECT_EQ(call({"decode", "--corpus", "/nonexistent", "--domain", "x", "--split", "tset"}).exit_code, 2);
}

TEST(Program, an_unknown_corpus_exits_2_and_writes_nothing) {
  const TemporaryFolder folder;
  const auto answer = call(
      {"prepare", "--recipe-json", request_file(folder, "debian-9"), "--store", folder / "store", "--recipes", MOIETY_RECIPES});
  EXPECT_EQ(answer.exit_code, 2);
  EXPECT_THAT(answer.errors, HasSubstr("did you mean `debian-8`?"));
  EXPECT_FALSE(std::filesystem::exists(folder / "store"));
}

TEST(Program, check_only_exits_4_and_names_what_is_missing) {
  const TemporaryFolder folder;
  const auto answer = call({"prepare", "--check-only", "--recipe-json", request_file(folder), "--store", folder / "store",
                            "--recipes", MOIETY_RECIPES});
  EXPECT_EQ(answer.exit_code, 4);
  EXPECT_EQ(answer.output, "{\"missing\":[\"corpus debian-8@1\",\"task supersense@1\"]}\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "store"));
}

TEST(Program, shipped_data_is_listed_without_a_store) {
  const TemporaryFolder folder;
  const auto answer = call({"list", "--store", folder / "none", "--recipes", MOIETY_RECIPES});
  EXPECT_EQ(answer.exit_code, 0);
  EXPECT_THAT(answer.output, HasSubstr("debian-8@1"));
  EXPECT_THAT(call({"show", "supersense", "--recipes", MOIETY_RECIPES}).output, HasSubstr("45 classes"));
}

TEST(Program, a_second_process_says_that_it_waits_and_ctrl_c_exits_130) {
  const TemporaryFolder folder;
  ASSERT_TRUE(make_folders(folder / "store"));
  const auto lock = FileLock::take(folder / "store/prepare.lock", [] {});
  ASSERT_TRUE(lock);
  const std::string request = request_file(folder);
  const std::string store = folder / "store";
  const std::string errors = folder / "errors";
  const pid_t child = ::fork();
  if (child == 0) {
    const int file = ::open(errors.c_str(), O_WRONLY | O_CREAT, 0644);
    ::dup2(file, 2);
    ::execl(MOIETY_DATA_PROGRAM, MOIETY_DATA_PROGRAM, "prepare", "--recipe-json", request.c_str(), "--store", store.c_str(),
            "--recipes", MOIETY_RECIPES, nullptr);
    ::_exit(99);
  }
  const auto said = [&] { return read_file(errors).value_or("").find("waiting for it") != std::string::npos; };
  for (int i = 0; i < 2000 && !said(); ++i) ::usleep(10'000);
  EXPECT_TRUE(said());
  ::kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_THAT(read_file(errors).value(), HasSubstr("interrupted"));
}

TEST(Lock, it_is_free_again_when_its_holder_goes) {
  const TemporaryFolder folder;
  bool waited = false;
  {
    ASSERT_TRUE(FileLock::take(folder / "lock", [&] { waited = true; }));
  }
  EXPECT_TRUE(FileLock::take(folder / "lock", [&] { waited = true; }));
  EXPECT_FALSE(waited);
}

}  // namespace
}  // namespace moiety::data
