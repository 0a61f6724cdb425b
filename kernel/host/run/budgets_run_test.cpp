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

}  // namespace
}  // namespace moiety::host
