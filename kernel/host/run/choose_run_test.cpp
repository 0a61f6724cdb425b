// Choices on validation data, from the recipe to the database.
#include <gtest/gtest.h>

#include "kernel/host/run/testing/sandbox.h"

namespace moiety::host {
namespace {

using testing::has;
using testing::Sandbox;

/// `low` chooses the level, which is best at 0.6; `fixed` has one.
const char* const choosing = R"toml(
[choose]
level = { among = [0.5, 0.6, 0.9], by = "highest tuned.valid_fit" }

[claim.fixed-is-higher]
that = "accuracy(fixed) > accuracy(low) by 5pp"
)toml";

std::string choosing_recipe(const std::string& more = "") {
  std::string text = testing::two_arm_recipe("level = \"${level}\"\n", choosing + more);
  text.replace(text.find("high ="), 6, "fixed =");
  return text;
}

TEST(Choose, all_trials_run_and_the_best_on_validation_data_is_reported) {
  Sandbox box;
  box.write("recipe.toml", choosing_recipe());
  const auto plan = box.run({"plan", "recipe.toml"});
  EXPECT_TRUE(has(plan.output, "choices:\n  level among 0.5, 0.6, 0.9, by highest tuned.valid_fit\n")) << plan.all();
  const auto ran = box.run_recipe({"--require", "fixed-is-higher"});
  ASSERT_EQ(ran.code, 0) << ran.all();
  EXPECT_TRUE(has(ran.output, "chosen on validation data:\nlevel, by highest tuned.valid_fit: 0.6 in low\n")) << ran.output;
  EXPECT_EQ(box.sql("SELECT count(*) FROM v_final WHERE arm = 'low' AND metric = 'accuracy' AND labels = '{}'"), "3");
  EXPECT_EQ(box.sql("SELECT round(avg(value), 4) FROM v_final WHERE arm = 'low' AND metric = 'accuracy'"), "0.62");
  EXPECT_EQ(box.sql("SELECT count(*) FROM v_trials WHERE metric = 'accuracy'"), "9") << "they are kept, and are not results";
  EXPECT_EQ(box.sql("SELECT group_concat(DISTINCT trial) FROM v_trials WHERE chosen"), "{\"level\":\"0.6\"}");
  EXPECT_EQ(box.sql("SELECT label FROM v_choices WHERE arm = 'low'"), "0.6");
  const auto compared = box.run({"compare"});
  EXPECT_TRUE(has(compared.output, "0.62")) << compared.all();
  EXPECT_FALSE(has(compared.output, "0.92")) << compared.output;
  const auto shown = box.run({"show", "1"});
  EXPECT_TRUE(has(shown.output, "tuned [level=0.9]")) << shown.output;
  EXPECT_TRUE(has(shown.output, "not chosen")) << shown.output;

  box.forget_calls();
  EXPECT_EQ(box.run_recipe().code, 0);
  EXPECT_EQ(box.sql("SELECT count(*) FROM v_runs"), "6") << "the same study goes on";
  EXPECT_EQ(box.calls("end "), 0);
}

TEST(Choose, a_trial_that_fails_leaves_the_arm_without_a_report) {
  Sandbox box;
  std::string text = choosing_recipe();
  text.replace(text.find("level = \"${level}\""), 18, "level = \"${level}\"\nbehave = \"${way}\"");
  text.replace(text.find("level = { among"), 15,
               "way = { among = [\"succeed\", \"fail\"], by = \"highest tuned.valid_fit\" }\nlevel = { among");
  box.write("recipe.toml", text);
  const auto ran = box.run_recipe();
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(has(ran.output, "undecided: fixed-is-higher")) << ran.all();
  EXPECT_EQ(box.sql("SELECT count(*) FROM v_final WHERE arm = 'low' AND metric = 'accuracy'"), "0");
  EXPECT_TRUE(has(box.sql("SELECT reason FROM v_choices WHERE arm = 'low'"), "failed"));
  EXPECT_EQ(box.sql("SELECT ifnull(label, 'none') FROM v_choices WHERE arm = 'low'"), "none");
}

}  // namespace
}  // namespace moiety::host
