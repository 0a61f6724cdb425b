#include "kernel/host/run/stage_end.h"

#include <gtest/gtest.h>

#include <csignal>

namespace moiety::host {
namespace {

End mark(const std::string& state, const std::string& error = "") {
  End end;
  end.state = state;
  end.error = error;
  return end;
}

TEST(StageEnd, T08_only_code_0_with_an_end_mark_and_an_artifact_is_done) {
  WorkerFacts facts;
  facts.end = mark("done");
  facts.artifact = true;
  EXPECT_EQ(judge(facts).state, StageState::done);
  facts.artifact = false;
  EXPECT_EQ(judge(facts).state, StageState::failed);
  EXPECT_EQ(judge(facts).error, "the worker left no artifact");
  facts.artifact = true;
  facts.end.reset();
  facts.last_words = "bye";
  EXPECT_EQ(judge(facts).state, StageState::failed);
  EXPECT_EQ(judge(facts).error, "the worker ended without an end mark (a plugin that calls exit?): bye");
  facts.end = mark("done");
  facts.exit.code = 1;
  EXPECT_EQ(judge(facts).state, StageState::failed) << "an end mark alone must not make it done";
  facts.exit.code = 0;
  facts.end = mark("failed");
  EXPECT_EQ(judge(facts).state, StageState::failed);
}

TEST(StageEnd, a_failure_says_what_the_worker_said) {
  WorkerFacts facts;
  facts.exit.code = 1;
  facts.end = mark("failed", "router/x@1: route: bad \x1b[31mshape");
  facts.end->component = "router/x@1";
  facts.end->function = "route";
  const auto end = judge(facts);
  EXPECT_EQ(end.state, StageState::failed);
  EXPECT_EQ(end.error, "router/x@1: route: bad \\x1b[31mshape");
  EXPECT_EQ(end.component, "router/x@1");
  EXPECT_FALSE(end.environment);
}

TEST(StageEnd, P13_a_crash_names_signal_component_and_function) {
  WorkerFacts facts;
  facts.exit.signal = SIGSEGV;
  facts.crash = Crash{SIGSEGV, "router/thrower@1", "route"};
  facts.beat = Beat{"sampler/uniform@1", "next", 0.1};
  auto end = judge(facts);
  EXPECT_EQ(end.state, StageState::failed);
  EXPECT_EQ(end.error, "killed by signal 11 (SIGSEGV) in router/thrower@1, function route");
  EXPECT_EQ(end.signal, SIGSEGV);
  // Without the crash line (stack gone, SIGKILL) the last beat is the best there is.
  facts.crash.reset();
  EXPECT_EQ(judge(facts).component, "sampler/uniform@1");
  // A crash line that names nobody says: not in a component.
  facts.crash = Crash{SIGSEGV, "", ""};
  EXPECT_EQ(judge(facts).error, "killed by signal 11 (SIGSEGV)");
}

TEST(StageEnd, divergence_environment_and_interruption_are_no_failures) {
  WorkerFacts facts;
  facts.exit.code = 4;
  EXPECT_EQ(judge(facts).state, StageState::diverged);
  EXPECT_EQ(judge(facts).error, "the loss is not finite");
  facts.exit.code = 3;
  facts.end = mark("interrupted", "the disk is full");
  EXPECT_EQ(judge(facts).state, StageState::interrupted);
  EXPECT_TRUE(judge(facts).environment);
  EXPECT_EQ(judge(facts).error, "the disk is full");
  for (const int code : {130, 143}) {
    facts.exit.code = code;
    EXPECT_EQ(judge(facts).state, StageState::interrupted);
    EXPECT_FALSE(judge(facts).environment);
  }
  facts.exit.code = 127;
  EXPECT_TRUE(judge(facts).environment);
}

TEST(StageEnd, a_kill_by_the_host_is_told_as_such_and_a_strange_one_too) {
  WorkerFacts facts;
  facts.exit.signal = SIGKILL;
  facts.killed = "router/slow@1, function route, took longer than limits.call (1 s)";
  EXPECT_EQ(judge(facts).error, facts.killed);
  EXPECT_EQ(judge(facts).state, StageState::failed);
  facts.killed.clear();
  EXPECT_EQ(judge(facts).error, "killed by signal 9 (SIGKILL); not by moiety: out of memory?");
  facts.stopped = true;
  EXPECT_EQ(judge(facts).state, StageState::interrupted) << "killed after Ctrl-C: resumable";
}

}  // namespace
}  // namespace moiety::host
