#include "kernel/host/run/worker.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "kernel/base/files.h"

namespace moiety::host {
namespace {

class WorkerTest : public ::testing::Test {
 protected:
  Worker start(const std::string& script) {
    Command command;
    command.words = {"sh", "-c", script};
    command.stderr_file = folder_ / "log";
    auto child = Child::start(command);
    if (!child) throw std::runtime_error(child.error().message);
    return {std::move(*child), {}, folder_ / "log", 1};
  }
  WorkerFacts finish(Worker& worker, const Limits& limits = {}) {
    for (int i = 0; i < 2000 && !worker.ended(); ++i) {
      worker.read();
      worker.enforce(limits);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(worker.ended());
    return worker.facts();
  }
  TemporaryFolder folder_;
};

TEST_F(WorkerTest, messages_exit_and_last_words_are_kept) {
  auto worker = start(R"(echo '{"progress":{"unit":"tokens","done":5,"total":10}}'; echo noise; echo first >&2; echo last >&2;
                         printf '{"end":{"state":"failed","error":"no"}}'; exit 1)");
  const auto facts = finish(worker);
  EXPECT_EQ(worker.progress()->done, 5);
  ASSERT_TRUE(facts.end) << "an end mark without a newline counts";
  EXPECT_EQ(facts.end->error, "no");
  EXPECT_EQ(facts.exit.code, 1);
  EXPECT_EQ(facts.last_words, "last");
  EXPECT_EQ(worker.stderr_tail(), "first\nlast\n");
}

TEST_F(WorkerTest, a_call_that_lasts_longer_than_the_limit_is_killed_and_named) {
  auto worker = start(R"(echo '{"beat":{"component":"router/slow@1","function":"route","seconds":0.2}}'; sleep 60)");
  Limits limits;
  limits.call_seconds = 0.5;
  const auto facts = finish(worker, limits);
  EXPECT_EQ(facts.exit.signal, SIGKILL);
  EXPECT_EQ(facts.killed, "router/slow@1, function route, took longer than limits.call (0.5 s) and was killed");
  EXPECT_EQ(judge(facts).component, "router/slow@1");
}

TEST_F(WorkerTest, a_worker_between_calls_may_take_as_long_as_it_likes) {
  auto worker = start(
      R"(echo '{"beat":{"component":"router/slow@1","function":"route","seconds":0.01}}'; echo '{"beat":{}}'; sleep 1; exit 0)");
  Limits limits;
  limits.call_seconds = 0.3;
  const auto facts = finish(worker, limits);
  EXPECT_EQ(facts.killed, "");
  EXPECT_EQ(facts.exit.signal, 0);
}

TEST_F(WorkerTest, memory_beyond_the_limit_is_killed) {
  auto worker = start("sleep 60");
  Limits limits;
  limits.memory = 1000;  // less than any process
  const auto facts = finish(worker, limits);
  EXPECT_NE(facts.killed.find("more than limits.memory (0 MiB)"), std::string::npos) << facts.killed;
}

TEST_F(WorkerTest, a_long_log_gives_its_end_in_whole_lines) {
  auto worker = start("i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done");
  finish(worker);
  const auto tail = worker.stderr_tail();
  EXPECT_LE(tail.size(), 4096U);
  EXPECT_EQ(tail.rfind("line ", 0), 0U);
  EXPECT_NE(tail.find("line 1999\n"), std::string::npos);
}

}  // namespace
}  // namespace moiety::host
