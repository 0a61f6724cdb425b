#include "kernel/host/run/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "kernel/base/files.h"
#include "kernel/base/text.h"

namespace moiety::host {
namespace {

Command shell(const std::string& script) {
  Command command;
  command.words = {"sh", "-c", script};
  return command;
}

TEST(Process, output_errors_and_exit_code_are_kept) {
  auto command = shell("cat; echo out; echo err >&2; exit 3");
  command.stderr_to_pipe = true;
  command.input = "in\n";
  const auto captured = capture(command, 10);
  ASSERT_TRUE(captured) << captured.error().message;
  EXPECT_EQ(captured->output, "in\nout\n");
  EXPECT_EQ(captured->errors, "err\n");
  EXPECT_EQ(captured->exit.code, 3);
  EXPECT_FALSE(captured->timed_out);
  EXPECT_EQ(captured->exit.text(), "exit code 3");
}

TEST(Process, much_output_on_both_streams_does_not_block) {
  auto command = shell("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2");
  command.stderr_to_pipe = true;
  const auto captured = capture(command, 30);
  ASSERT_TRUE(captured);
  EXPECT_EQ(captured->output.size(), 300000U);
  EXPECT_EQ(captured->errors.size(), 300000U);
}

TEST(Process, a_limit_kills_the_whole_group) {
  TemporaryFolder folder;
  const double begin = now_seconds();
  const auto captured = capture(shell("(sleep 60 & echo $! > " + folder / "pid" + "; wait)"), 0.3);
  ASSERT_TRUE(captured);
  EXPECT_TRUE(captured->timed_out);
  EXPECT_EQ(captured->exit.signal, SIGKILL);
  EXPECT_EQ(captured->exit.text(), "killed by signal 9 (SIGKILL)");
  EXPECT_LT(now_seconds() - begin, 5);
  const int grandchild = std::stoi(*read_file(folder / "pid"));
  // Dead, or a zombie that init has not collected yet.
  for (int i = 0; i < 100 && ::kill(grandchild, 0) == 0; ++i) {
    const auto stat = read_file("/proc/" + std::to_string(grandchild) + "/stat");
    if (!stat || stat->find(") Z") != std::string::npos) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_LT(i, 99) << "the grandchild lives on";
  }
}

TEST(Process, a_grandchild_that_keeps_the_pipe_open_does_not_hold_us) {
  const double begin = now_seconds();
  const auto captured = capture(shell("sleep 5 & echo done"), 0);
  ASSERT_TRUE(captured);
  EXPECT_EQ(captured->output, "done\n");
  EXPECT_LT(now_seconds() - begin, 4);
}

TEST(Process, a_missing_program_is_exit_code_127_with_a_reason) {
  Command command;
  command.words = {"/nowhere/program"};
  command.stderr_to_pipe = true;
  const auto captured = capture(command, 5);
  ASSERT_TRUE(captured);
  EXPECT_EQ(captured->exit.code, 127);
  EXPECT_EQ(captured->errors, "cannot start /nowhere/program: No such file or directory\n");
}

TEST(Process, environment_is_added_and_replaced) {
  ::setenv("MOIETY_PROCESS_TEST", "old", 1);
  auto command = shell("echo $MOIETY_PROCESS_TEST $MOIETY_PROCESS_OTHER");
  command.environment = {{"MOIETY_PROCESS_TEST", "new"}, {"MOIETY_PROCESS_OTHER", "too"}};
  EXPECT_EQ(capture(command, 5)->output, "new too\n");
}

TEST(Process, an_inherited_descriptor_keeps_a_lock_alive) {
  TemporaryFolder folder;
  const auto open_lock = [&] { return Descriptor(::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)); };
  auto mine = open_lock();
  ASSERT_EQ(::flock(mine.get(), LOCK_EX | LOCK_NB), 0);
  auto command = shell("sleep 30");
  command.inherited = mine.get();
  auto child = Child::start(command);
  ASSERT_TRUE(child);
  mine.reset();
  auto other = open_lock();
  EXPECT_NE(::flock(other.get(), LOCK_EX | LOCK_NB), 0) << "the child does not hold it";
  child->send(SIGKILL);
  child->wait();
  // What the shell had started is killed too, but not waited for here.
  int free = -1;
  for (int i = 0; i < 500 && (free = ::flock(other.get(), LOCK_EX | LOCK_NB)) != 0; ++i) ::usleep(10000);
  EXPECT_EQ(free, 0);
}

TEST(Process, stderr_goes_to_a_log_that_is_appended_to) {
  TemporaryFolder folder;
  auto command = shell("echo one >&2");
  command.stderr_file = folder / "log";
  ASSERT_TRUE(capture(command, 5));
  ASSERT_TRUE(capture(command, 5));
  EXPECT_EQ(*read_file(folder / "log"), "one\none\n");
  command.stderr_file = folder / "no/such/log";
  const auto refused = capture(command, 5);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::environment);
}

TEST(Process, cpu_time_and_memory_of_a_child_are_known) {
  const auto captured = capture(shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"), 30);
  ASSERT_TRUE(captured);
  EXPECT_GT(captured->exit.cpu_seconds, 0.01);
  EXPECT_GT(captured->exit.peak_memory, 100000);
}

}  // namespace
}  // namespace moiety::host
