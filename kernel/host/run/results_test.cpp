// Stages whose text waits for what others find: they are known, and run, when those have run.
#include <gtest/gtest.h>

#include <csignal>

#include "kernel/base/text.h"
#include "kernel/host/run/process.h"
#include "kernel/host/run/testing/sandbox.h"

namespace moiety::host {
namespace {

using testing::has;
using testing::Sandbox;

/// Two arms, three seeds: base (pinned) → found → tuned, with what was found → score.
std::string found_recipe(const std::string& tuned_keys = "level = \"${found.found}\"") {
  return R"([recipe]
name = "found"
seeds = 3
baseline = "low"

[model]
layers = 2

[stage.base]
do = "train"
seed = 1

[stage.found]
do = "probe"
from = "base"

[stage.tuned]
do = "train"
from = "base"
)" + tuned_keys +
         R"toml(

[stage.score]
do = "evaluate"
from = "tuned"

[arm]
low = {}
high = { stage.found.finds = 0.7 }

[claim.better]
that = "accuracy(high) > accuracy(low)"
)toml";
}

TEST(Results, a_reader_waits_and_runs_with_what_was_found) {
  Sandbox box;
  box.write("recipe.toml", found_recipe());
  const auto plan = box.run({"plan", "recipe.toml"});
  ASSERT_EQ(plan.code, 0) << plan.all();
  EXPECT_TRUE(has(plan.output, "after found")) << plan.output;
  EXPECT_TRUE(has(plan.output, "level: after found")) << plan.output;
  EXPECT_TRUE(has(plan.output, "3 stages: 3 to run")) << plan.output;
  EXPECT_TRUE(has(plan.output, "; 4 wait for results of others")) << plan.output;

  const auto ran = box.run_recipe();
  ASSERT_EQ(ran.code, 0) << ran.all();
  EXPECT_EQ(box.calls("run base"), 1);
  EXPECT_EQ(box.calls("run found"), 2) << "one an arm";
  EXPECT_EQ(box.calls("run tuned"), 6);
  EXPECT_EQ(box.calls("run score"), 6);
  EXPECT_EQ(box.sql("SELECT round(mean, 6) FROM v_arms WHERE arm = 'high' AND metric = 'accuracy'"), "0.72");
  EXPECT_EQ(box.sql("SELECT round(mean, 6) FROM v_arms WHERE arm = 'low' AND metric = 'accuracy'"), "0.52");
  EXPECT_EQ(box.sql("SELECT verdict FROM v_claims WHERE claim = 'better' AND statement = ''"), "supported");
  EXPECT_EQ(box.sql("SELECT count(*) FROM run_stage"), "24") << "each of six runs has its four stages, once";
  EXPECT_TRUE(has(ran.output, "15 stages in ")) << ran.output;
  EXPECT_TRUE(has(ran.output, "15 run, 0 found in the store")) << ran.output;
  EXPECT_TRUE(has(ran.output, "6 of 6 runs done")) << ran.output;

  box.forget_calls();
  const auto again = box.run_recipe();
  ASSERT_EQ(again.code, 0) << again.all();
  EXPECT_EQ(box.calls(""), 0) << "all is known from the store";
  EXPECT_TRUE(has(again.output, "0 run, 15 found in the store")) << again.output;
  EXPECT_EQ(box.sql("SELECT count(*) FROM study"), "1");
  EXPECT_EQ(box.sql("SELECT count(*) FROM run"), "6");
  const auto done = box.run({"plan", "recipe.toml"});
  EXPECT_FALSE(has(done.output, "after found")) << done.output;
}

TEST(Results, another_result_makes_the_reader_new_and_the_same_result_does_not) {
  Sandbox box;
  box.write("recipe.toml", found_recipe());
  ASSERT_EQ(box.run_recipe().code, 0);
  box.forget_calls();
  ASSERT_EQ(box.run_recipe({"--set", "stage.found.point=20%"}).code, 0);
  EXPECT_EQ(box.calls("run found"), 2);
  EXPECT_EQ(box.calls("run tuned"), 0) << "it found the same";
  box.forget_calls();
  ASSERT_EQ(box.run_recipe({"--set", "stage.found.finds=0.6"}).code, 0);
  EXPECT_EQ(box.calls("run found"), 1) << "of the arm that does not say otherwise";
  EXPECT_EQ(box.calls("run tuned"), 3);
  EXPECT_EQ(box.sql("SELECT count(*) FROM v_arms WHERE arm = 'low' AND metric = 'accuracy' AND round(mean, 6) = 0.62"), "1");
}

TEST(Results, what_differs_from_seed_to_seed_is_one_arm_all_the_same) {
  Sandbox box;
  box.write("recipe.toml", found_recipe());
  const auto ran = box.run_recipe({"--unset", "stage.base.seed"});
  ASSERT_EQ(ran.code, 0) << ran.all();
  EXPECT_EQ(box.calls("run found"), 6);
  EXPECT_FALSE(has(ran.output, "no table")) << ran.output;
  EXPECT_EQ(box.sql("SELECT DISTINCT txt FROM param WHERE path = 'level' AND txt LIKE '%found%'"), "${found.found}");
  EXPECT_EQ(box.sql("SELECT round(mean, 6) FROM v_arms WHERE arm = 'high' AND metric = 'accuracy'"), "0.73");
}

TEST(Results, a_run_stopped_among_the_readers_goes_on_with_them) {
  Sandbox box;
  box.write("recipe.toml", found_recipe("level = \"${found.found}\"\nseconds = 0.6"));
  auto child = Child::start(box.command({"run", "recipe.toml", "--jobs", "1"}));
  ASSERT_TRUE(child);
  ASSERT_TRUE(box.wait_for_call("run tuned"));
  child->send(SIGINT);
  EXPECT_EQ(child->wait().code, 130);
  EXPECT_EQ(box.sql("SELECT state FROM study"), "interrupted");
  box.forget_calls();
  const auto again = box.run_recipe();
  ASSERT_EQ(again.code, 0) << again.all();
  EXPECT_EQ(box.calls("run found"), 0);
  EXPECT_EQ(box.calls("run tuned"), 6);
  EXPECT_GE(box.calls("resumed at"), 1);
  EXPECT_EQ(box.sql("SELECT count(*) FROM study"), "1");
  EXPECT_EQ(box.sql("SELECT count(*) FROM v_runs WHERE state = 'done'"), "6");
}

TEST(Results, a_run_stopped_before_they_are_known_goes_on_in_the_same_study) {
  Sandbox box;
  std::string text = found_recipe();
  text.replace(text.find("do = \"probe\""), 12, "do = \"probe\"\nbehave = \"fail!once\"");
  box.write("recipe.toml", text);
  const auto first = box.run_recipe();
  EXPECT_EQ(first.code, 1) << first.all();
  EXPECT_EQ(box.calls("run tuned"), 0);
  EXPECT_TRUE(has(first.output, "12 skipped")) << first.output;
  EXPECT_TRUE(has(first.output, "0 of 6 runs done; failed: low seed 1")) << first.output;
  EXPECT_EQ(box.sql("SELECT verdict FROM v_claims WHERE claim = 'better' AND statement = ''"), "undecided");
  const auto second = box.run_recipe();
  ASSERT_EQ(second.code, 0) << second.all();
  EXPECT_EQ(box.calls("run tuned"), 6);
  EXPECT_EQ(box.sql("SELECT count(*) FROM study"), "1");
  EXPECT_EQ(box.sql("SELECT count(*) FROM run"), "6");
  EXPECT_EQ(box.sql("SELECT count(*) FROM v_runs WHERE state = 'done'"), "6");
}

TEST(Results, a_stage_that_failed_fails_its_readers_and_no_others) {
  Sandbox box;
  std::string text = found_recipe();
  text.replace(text.find("high = {"), 8, "high = { stage.found.behave = \"fail\",");
  box.write("recipe.toml", text);
  const auto ran = box.run_recipe();
  EXPECT_EQ(ran.code, 1) << ran.all();
  EXPECT_EQ(box.calls("run tuned"), 3);
  EXPECT_EQ(box.calls("run found"), 2) << "what failed is not tried again in one run";
  EXPECT_TRUE(has(ran.output, "3 of 6 runs done; failed: high seed 1, high seed 2, high seed 3")) << ran.output;
  EXPECT_TRUE(has(ran.output, "6 skipped")) << ran.output;
}

TEST(Results, a_value_that_does_not_fit_is_told_with_the_result_it_is) {
  Sandbox box;
  box.write("recipe.toml", found_recipe("seconds = \"${found.found}\""));
  const auto ran = box.run_recipe({"--set", "arm.high.stage.found.finds=-1"});
  EXPECT_EQ(ran.code, 1) << ran.all();
  EXPECT_TRUE(has(ran.output,
                  "failed: tuned (arm high, seeds 1, 2, 3): `seconds` in stage.tuned (train) must be at least 0, but "
                  "this is -1 (${found.found} is -1.0)\n"))
      << ran.output;
  EXPECT_TRUE(has(ran.output, "3 of 6 runs done; failed: high seed 1")) << ran.output;
  EXPECT_EQ(box.calls("run tuned"), 3);
}

TEST(Results, a_result_that_was_declared_and_not_left_is_told) {
  Sandbox box;
  box.write("recipe.toml", found_recipe("level = \"${found.nothing}\""));
  const auto ran = box.run_recipe();
  EXPECT_EQ(ran.code, 1) << ran.all();
  EXPECT_TRUE(has(ran.output, "stage.found has run, but left no result `nothing`")) << ran.output;
}

TEST(Results, what_the_dry_pass_refuses_later_fails_and_the_rest_goes_on) {
  Sandbox box;
  box.write("recipe.toml", found_recipe("level = \"${found.found}\""));
  const auto ran = box.run_recipe({"--set", "arm.high.stage.tuned.behave=refuse"});
  EXPECT_EQ(ran.code, 1) << ran.all();
  EXPECT_TRUE(has(ran.output, "this combination is not possible")) << ran.output;
  EXPECT_TRUE(has(ran.output, "3 of 6 runs done")) << ran.output;
  EXPECT_EQ(box.calls("run tuned"), 3);
}

TEST(Results, a_state_at_a_point_that_was_found) {
  Sandbox box;
  std::string text = found_recipe();
  text.replace(text.find("from = \"base\"\nlevel = \"${found.found}\""), 39, "from = \"base@${found.point}\"\n");
  text.replace(text.find("do = \"probe\""), 12, "do = \"probe\"\nat = [\"10%\", \"20%\"]");
  box.write("recipe.toml", text);
  const auto ran = box.run_recipe();
  ASSERT_EQ(ran.code, 0) << ran.all();
  EXPECT_EQ(box.calls("run base"), 1) << "both points were kept for the probe";
  box.forget_calls();
  const auto other = box.run_recipe({"--set", "stage.found.point=30%"});
  ASSERT_EQ(other.code, 0) << other.all();
  EXPECT_EQ(box.calls("run base"), 1) << "that point was not kept, so it is run anew";
  EXPECT_EQ(box.calls("run tuned"), 3);
  EXPECT_TRUE(has(other.errors, "its stored result is not enough (it lacks the state at 30%)")) << other.errors;
}

}  // namespace
}  // namespace moiety::host
