// What a stage that fails does to a run: to its own arms, and to nothing else.
#include <gtest/gtest.h>

#include "kernel/host/run/process.h"
#include "kernel/host/run/testing/sandbox.h"

namespace moiety::host {
namespace {

using testing::Ran;
using testing::Sandbox;
using testing::two_arm_recipe;

using testing::has;

/// Runs with one stage (arm high) that behaves so.
Ran run_with(const Sandbox& box, const std::string& behave, const std::string& more = "", std::vector<std::string> words = {}) {
  box.write("recipe.toml", two_arm_recipe("", more));
  words.insert(words.begin(), {"--set", "arm.high.stage.tuned.behave=" + behave});
  return box.run_recipe(words);
}

TEST(Failure, a_failed_stage_fails_its_runs_only) {
  Sandbox box;
  const auto ran = run_with(box, "fail@2");
  EXPECT_EQ(ran.code, 1) << ran.all();
  EXPECT_EQ(box.sql("SELECT count(*) FROM v_runs WHERE state = 'done'"), "5");
  EXPECT_EQ(box.sql("SELECT state FROM v_runs WHERE arm = 'high' AND seed = 2"), "failed");
  EXPECT_EQ(box.sql("SELECT count(*) FROM stage WHERE state = 'skipped'"), "1");
  EXPECT_EQ(box.sql("SELECT error FROM attempt WHERE state = 'failed'"), "it was told to fail");
  EXPECT_EQ(box.sql("SELECT component || ' ' || function FROM attempt WHERE state = 'failed'"), "router/fake@1 route");
  EXPECT_EQ(box.sql("SELECT state FROM study"), "failed");
  EXPECT_TRUE(has(ran.errors, "failed: tuned (arm high, seed 2): it was told to fail; 1 stage that reads it skipped\n  log: "))
      << ran.errors;
  EXPECT_TRUE(has(ran.output, "5 of 6 runs done; failed: high seed 2\n")) << ran.output;
}

TEST(Failure, T15_every_failure_is_told_at_once_and_again_at_the_end) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe());
  const auto ran = box.run_recipe({"--set", "arm.low.stage.tuned.behave=fail", "--jobs", "1"});
  EXPECT_EQ(ran.code, 1);
  for (const char* seed : {"1", "2", "3"}) {
    const std::string line = "failed: tuned (arm low, seed " + std::string(seed) + "): it was told to fail";
    EXPECT_TRUE(has(ran.errors, line)) << ran.errors;
    EXPECT_TRUE(has(ran.output, line)) << ran.output;
  }
  // At once: the other arm's stages still come after it.
  EXPECT_LT(ran.errors.find("failed: tuned"), ran.errors.find("start: tuned (arm high, seed 1)")) << ran.errors;
}

TEST(Failure, T15_max_failures_stops_the_run_resumable) {
  Sandbox box;
  const auto ran = run_with(box, "fail", "", {"--max-failures", "1", "--jobs", "1", "--set", "arm.low.stage.tuned.seconds=0.1"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(has(ran.errors, "1 failed stage (--max-failures): stopping")) << ran.errors;
  EXPECT_EQ(box.sql("SELECT count(*) FROM attempt WHERE state = 'failed'"), "1");
  EXPECT_TRUE(has(ran.errors, "to go on: moiety run recipe.toml")) << ran.errors;
}

TEST(Failure, P13_a_crash_costs_its_own_stage_and_names_plugin_and_function) {
  Sandbox box;
  const auto ran = run_with(box, "crash@1");
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(
      has(ran.errors, "failed: tuned (arm high, seed 1): killed by signal 11 (SIGSEGV) in router/crasher@1, function route"))
      << ran.errors;
  EXPECT_EQ(box.sql("SELECT signal || component || function FROM attempt WHERE state = 'failed'"), "11router/crasher@1route");
  EXPECT_EQ(box.sql("SELECT count(*) FROM v_runs WHERE state = 'done'"), "5");
}

TEST(Failure, a_call_that_hangs_is_killed_at_its_limit_and_named) {
  Sandbox box;
  const double begin = now_seconds();
  const auto ran = run_with(box, "hang@3", "\n[limits]\ncall = \"1 s\"\n");
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(has(ran.errors, "router/sleeper@1, function route, took longer than limits.call (1.0 s) and was killed"))
      << ran.errors;
  EXPECT_EQ(box.sql("SELECT component FROM attempt WHERE state = 'failed'"), "router/sleeper@1");
  EXPECT_EQ(box.sql("SELECT count(*) FROM v_runs WHERE state = 'done'"), "5");
  EXPECT_LT(now_seconds() - begin, 30);
}

TEST(Failure, memory_beyond_its_limit_is_killed_and_named) {
  Sandbox box;
  const auto ran = run_with(box, "memory@3", "\n[limits]\nmemory = \"100 MiB\"\n");
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(has(ran.errors, "more than limits.memory (100 MiB); killed in clusterer/greedy@1, function cluster")) << ran.errors;
  EXPECT_EQ(box.sql("SELECT count(*) FROM v_runs WHERE state = 'done'"), "5");
}

TEST(Failure, T08_an_exit_without_an_end_mark_or_a_result_is_a_failure) {
  Sandbox box;
  for (const auto& [how, why] : {std::pair{"quiet", "without an end mark"}, std::pair{"exit", "without an end mark"},
                                 std::pair{"no-artifact", "left no artifact"}}) {
    const auto ran = run_with(box, std::string(how) + "@2");
    EXPECT_EQ(ran.code, 1) << how;
    EXPECT_TRUE(has(ran.errors, why)) << ran.errors;
  }
  EXPECT_EQ(box.sql("SELECT count(*) FROM attempt WHERE state = 'failed'"), "3");
}

TEST(Failure, a_diverged_run_is_a_result_and_is_not_tried_again) {
  Sandbox box;
  const auto ran = run_with(box, "diverge@2");
  EXPECT_EQ(ran.code, 0) << ran.all();
  EXPECT_TRUE(has(ran.output, "5 of 6 runs done; diverged: high seed 2\n")) << ran.output;
  EXPECT_EQ(box.sql("SELECT state FROM v_runs WHERE arm = 'high' AND seed = 2"), "diverged");
  box.forget_calls();
  const auto again = run_with(box, "diverge@2");
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(box.calls("run"), 0);
  EXPECT_TRUE(has(again.output, "diverged: high seed 2\n")) << again.output;
}

TEST(Failure, a_problem_of_the_machine_stops_everything_resumable_with_exit_3) {
  Sandbox box;
  const auto ran = run_with(box, "environment@1!once", "", {"--set", "arm.low.stage.tuned.seconds=0.2"});
  EXPECT_EQ(ran.code, 3) << ran.all();
  EXPECT_TRUE(has(ran.errors, "the disk is full")) << ran.errors;
  EXPECT_TRUE(has(ran.errors, "resumable")) << ran.errors;
  EXPECT_EQ(box.sql("SELECT count(*) FROM attempt WHERE state IN ('failed', 'running')"), "0");
  EXPECT_EQ(box.sql("SELECT state FROM study"), "interrupted");
  const auto again = run_with(box, "environment@1!once", "", {"--set", "arm.low.stage.tuned.seconds=0.2"});
  EXPECT_EQ(again.code, 0) << again.all();
}

TEST(Failure, T12_a_failed_run_is_shown_with_what_it_said_and_its_log) {
  Sandbox box;
  run_with(box, "fail@2");
  const auto number = box.sql("SELECT run FROM v_runs WHERE state = 'failed'");
  const auto shown = box.run({"show", number});
  EXPECT_EQ(shown.code, 0);
  EXPECT_TRUE(has(shown.output, "it was told to fail")) << shown.output;
  EXPECT_TRUE(has(shown.output, "attempt-1.log")) << shown.output;
  const auto logs = box.run({"logs", number});
  EXPECT_TRUE(has(logs.output, "stage tuned begins")) << logs.output;
}

}  // namespace
}  // namespace moiety::host
