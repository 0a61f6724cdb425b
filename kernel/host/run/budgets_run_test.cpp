// Budgets that are another arm's total: solved from what the worker says that stages cost, before anything runs.
#include <gtest/gtest.h>

#include "kernel/host/run/testing/sandbox.h"

namespace moiety::host {
namespace {

using testing::has;
using testing::Sandbox;
using testing::two_arm_recipe;

TEST(BudgetsRun, the_arm_trains_until_both_totals_are_equal) {
  Sandbox box;
  box.write(
      "recipe.toml",
      two_arm_recipe(
          "",
          "matched = { stage.tuned.level = 0.9, stage.tuned.budget = \"flops of low\", stage.base.budget = \"500 steps\" }\n"));
  const auto ran = box.run_recipe();
  ASSERT_EQ(ran.code, 0) << ran.all();
  EXPECT_EQ(box.sql("SELECT DISTINCT num FROM param JOIN stage ON stage.key = param.stage WHERE stage.name = 'tuned' AND path = "
                    "'budget.amount'"),
            "1500.0")
      << "low: 1000 and 1000; matched: 500 and 1500";
  EXPECT_EQ(box.calls("run tuned"), 9);
  box.forget_calls();
  const auto again = box.run_recipe();
  ASSERT_EQ(again.code, 0) << again.all();
  EXPECT_EQ(box.calls("run"), 0) << "solved as before, so all is found";
  const auto plan = box.run({"plan", "recipe.toml"});
  EXPECT_TRUE(has(plan.output, "0 to run")) << plan.output;
}

TEST(BudgetsRun, one_that_cannot_be_is_refused_with_its_line_before_anything_runs) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe("",
                                          "matched = { stage.tuned.budget = \"flops of short\" }\n"
                                          "short = { unset = [\"stage.tuned.from\"], stage.tuned.budget = \"10 steps\" }\n"));
  for (const char* command : {"run", "plan"}) {
    const auto ran = box.run({command, "recipe.toml"});
    EXPECT_EQ(ran.code, 2) << ran.all();
    EXPECT_TRUE(has(ran.errors,
                    "recipe.toml:24:34: error: arm `matched` needs 1000000000 flops before a step of stage.tuned, arm `short` "
                    "10000000 in all: no number of steps makes them equal, in stage.tuned.budget (arm matched)\n"))
        << ran.errors;
  }
  EXPECT_EQ(box.calls("run"), 0);
}

/// `wide` takes as many layers as make its model as large as that of `high`, which is known when high has run.
std::string sized_recipe(const std::string& high = "") {
  std::string text = two_arm_recipe("",
                                    "wide = { model.layers = \"total parameters of high\" }\n"
                                    "[claim.as-large]\nthat = 'total_parameters(wide) = total_parameters(high)'\n");
  const std::string level = "high = { stage.tuned.level = 0.7 }";
  return text.replace(text.find(level), level.size(), "high = { stage.tuned.grows = true" + high + " }");
}

TEST(SizesRun, a_model_becomes_as_large_as_one_that_is_known_when_it_has_run) {
  Sandbox box;
  box.write("recipe.toml", sized_recipe());
  const auto plan = box.run({"plan", "recipe.toml"});
  EXPECT_TRUE(has(plan.output, "≥2.0k")) << plan.all();
  EXPECT_TRUE(has(plan.output, "after the parameters of high")) << plan.output;
  const auto ran = box.run_recipe();
  ASSERT_EQ(ran.code, 0) << ran.all();
  EXPECT_TRUE(has(ran.errors, "layers = 3 in stage.base (arm wide): 3000 total parameters, arm high has 3000 (+0 %)"))
      << ran.errors;
  EXPECT_TRUE(has(ran.output, "as-large: supported")) << ran.output;
  EXPECT_EQ(box.sql("SELECT DISTINCT txt FROM v_params WHERE arm = 'wide' AND path = 'model.layers'"),
            "total parameters of high");
  EXPECT_EQ(box.run({"compare"}).code, 0);
}

TEST(SizesRun, runs_of_which_nothing_was_known_are_the_same_when_it_is) {
  Sandbox box;
  box.write("recipe.toml", sized_recipe(", stage.tuned.behave = \"fail!once\""));
  EXPECT_EQ(box.run_recipe().code, 1);
  EXPECT_EQ(box.sql("SELECT count(*) FROM run"), "9");
  const auto again = box.run_recipe();
  ASSERT_EQ(again.code, 0) << again.all();
  EXPECT_EQ(box.sql("SELECT count(*) FROM run"), "9");
  EXPECT_EQ(box.sql("SELECT count(*) FROM v_runs WHERE state = 'done'"), "9");
}

}  // namespace
}  // namespace moiety::host
