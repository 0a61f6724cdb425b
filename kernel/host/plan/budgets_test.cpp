#include "kernel/host/plan/budgets.h"

#include <gtest/gtest.h>

#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

using testing::fixture_catalog;
using testing::Loaded;
using testing::small_recipe;

const PreparedData kPrepared = {"corpus-hash", {{"supersense", "task-hash"}}};

/// A token costs 1 in pretraining, an example 100 and a step 1000 in tuning, a construction 5000.
Result<std::map<std::string, BudgetCost>> ask(const Plan&, const std::vector<const PlannedStage*>& stages) {
  std::map<std::string, BudgetCost> costs;
  for (const auto* stage : stages) {
    double flops = stage->verb->name == "construct" ? 5000 : stage->verb->measures ? 1e9 : 0;
    if (stage->config.contains("budget")) {
      const auto& budget = stage->config.at("budget");
      const auto unit = budget.at("unit").get<std::string>();
      flops = budget.at("amount").get<double>() * (unit == "tokens" ? 1 : unit == "examples" ? 100 : 1000);
    }
    costs[stage->id] = {flops, flops / 10};
  }
  return costs;
}

PlanFacts solved(const Loaded& loaded, PlanFacts facts = {}) {
  EXPECT_TRUE(loaded.good()) << loaded.error();
  EXPECT_TRUE(solve_budgets(loaded.recipe(), fixture_catalog(), kPrepared, ask, facts).has_value());
  return facts;
}

TEST(Budgets, totals_of_two_arms_become_equal) {
  const Loaded loaded(small_recipe() +
                      "[arm.matched]\nstage.tuned.budget = 'flops of dense'\n"
                      "[arm.chained]\nextends = 'clustered'\nstage.tuned.budget = 'tokens of matched'\n");
  const auto facts = solved(loaded);
  EXPECT_TRUE(facts.unsolvable.empty());
  // dense: 1.2M + 1.5M; matched: 1.2M + 5000 + 1000 n.
  ASSERT_EQ(facts.steps.size(), 2U);
  EXPECT_EQ(facts.steps.at({"matched", "tuned", {}}), 1495);
  EXPECT_EQ(facts.steps.at({"chained", "tuned", {}}), 1495);
  const Plan plan = build_plan(loaded.recipe(), fixture_catalog(), kPrepared, facts);
  EXPECT_TRUE(plan.waiting.empty());
  std::size_t matched = 0;
  for (const auto& stage : plan.stages) {
    if (stage.config.contains("budget") && stage.config.at("budget") == nlohmann::json{{"amount", 1495}, {"unit", "steps"}})
      ++matched;
  }
  EXPECT_EQ(matched, 3U) << "one a seed: both arms have the same stages";
  EXPECT_NE(loaded.recipe().resolved_text.find("flops of dense"), std::string::npos) << "the text says what is meant";
}

TEST(Budgets, an_amount_of_flops_is_so_many_steps_of_the_stage) {
  const Loaded loaded(small_recipe() +
                      "[arm.counted]\nstage.tuned.budget = '2.3456e6 flops'\n"
                      "[arm.little]\nstage.tuned.budget = '10 flops'\n[arm.after]\nstage.tuned.budget = 'flops of counted'\n");
  const auto facts = solved(loaded);
  EXPECT_EQ(facts.steps.at({"counted", "tuned", {}}), 2346);
  EXPECT_EQ(facts.unsolvable.at({"little", "tuned", {}}), "a step costs 1000 flops, so 10 are no number of steps");
  EXPECT_EQ(facts.steps.at({"after", "tuned", {}}), 2346) << "what depends on it is solved after it";
  EXPECT_NE(loaded.recipe().resolved_text.find("2345600 flops"), std::string::npos);
}

TEST(Budgets, while_they_are_not_solved_the_stage_waits) {
  const Loaded loaded(small_recipe() + "[arm.matched]\nstage.tuned.budget = 'flops of dense'\n");
  const Plan plan = loaded.plan();
  ASSERT_EQ(plan.waiting.size(), 2U);
  EXPECT_EQ(plan.waiting[0].name, "tuned");
  EXPECT_EQ(plan.waiting[0].after, (std::vector<std::string>{"the total of dense"}));
  EXPECT_EQ(plan.waiting[0].seeds, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(plan.waiting[1].name, "score");
  EXPECT_TRUE(plan.run("matched", 1)->waits);
  EXPECT_FALSE(plan.run("dense", 1)->waits);
}

TEST(Budgets, the_same_labels_are_compared) {
  const Loaded loaded(small_recipe() +
                      "[axes]\nitems = [1000, 3000]\n[arm.swept]\n"
                      "stage.tuned = { from = 'pretrained', budget = '${items} examples' }\n[arm.matched]\n"
                      "stage.tuned = { budget = 'flops of swept', item_tokens = '${items}' }\n");
  const auto facts = solved(loaded);
  EXPECT_TRUE(facts.unsolvable.empty());
  // The language model is measured of both, so both need the construction.
  EXPECT_EQ(facts.steps.at({"matched", "tuned", {{"items", "1000"}}}), 100);
  EXPECT_EQ(facts.steps.at({"matched", "tuned", {{"items", "3000"}}}), 300);
}

TEST(Budgets, of_a_state_on_the_way_only_the_training_until_then_is_paid) {
  const Loaded loaded(small_recipe() +
                      "[arm.halved]\nstage.split.from = 'pretrained@50%'\nstage.tuned.budget = 'flops of dense'\n"
                      "[arm.cut]\nstage.split.from = 'pretrained@30k tokens'\nstage.tuned.budget = 'flops of dense'\n");
  const auto facts = solved(loaded);
  EXPECT_EQ(facts.steps.at({"halved", "tuned", {}}), 1495 + 600);
  // By this worker's count, pretraining is 120k tokens for 1.2M flops.
  EXPECT_EQ(facts.steps.at({"cut", "tuned", {}}), 1495 + 900);
}

TEST(Budgets, one_that_cannot_be_is_told_with_both_totals) {
  const Loaded loaded(small_recipe() +
                      "[arm.short]\nstage.tuned.budget = '10 steps'\nstage.pretrained.budget = '1k tokens'\n"
                      "[arm.matched]\nstage.tuned.budget = 'flops of short'\n");
  const auto facts = solved(loaded);
  EXPECT_TRUE(facts.steps.empty());
  ASSERT_EQ(facts.unsolvable.size(), 1U);
  EXPECT_EQ(
      facts.unsolvable.begin()->second,
      "arm `matched` needs 1205000 flops before a step of stage.tuned, arm `short` 16000 in all: no number of steps makes them "
      "equal");
  const Plan plan = build_plan(loaded.recipe(), fixture_catalog(), kPrepared, facts);
  ASSERT_EQ(plan.waiting.size(), 2U);
  EXPECT_EQ(plan.waiting[0].problem.rfind("budget: arm `matched` needs", 0), 0U) << plan.waiting[0].problem;
  EXPECT_EQ(plan.waiting[1].problem, "stage.tuned cannot be run");
}

TEST(Budgets, one_total_cannot_say_two_budgets) {
  const Loaded loaded(small_recipe() +
                      "[arm.matched]\nstage.tuned.budget = 'flops of dense'\nstage.pretrained.budget = 'flops of dense'\n");
  const auto facts = solved(loaded);
  EXPECT_EQ(facts.unsolvable.size(), 2U);
}

TEST(Budgets, wait_for_results_that_their_arm_waits_for) {
  const Loaded loaded(
      small_recipe() +
      "[stage.topics]\ndo = 'cluster'\n"
      "[arm.matched]\nstage.tuned.budget = 'flops of dense'\nstage.split.feed_forward.experts.count = '${topics.count}'\n");
  EXPECT_TRUE(solved(loaded).steps.empty());
  PlanFacts known;
  known.results = [](const std::string&) { return nlohmann::json{{"count", 8}}; };
  EXPECT_EQ(solved(loaded, known).steps.at({"matched", "tuned", {}}), 1495);
}

}  // namespace
}  // namespace moiety::host
