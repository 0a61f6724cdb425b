#include "kernel/host/plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

using testing::Loaded;
using testing::small_recipe;
using testing::small_recipe_with;

std::set<std::string> ids(const Plan& plan) {
  std::set<std::string> result;
  for (const auto& stage : plan.stages) result.insert(stage.id);
  return result;
}

TEST(Plan, equal_stages_are_one_and_a_pinned_stage_has_one_instance) {
  const Plan plan = Loaded(small_recipe()).plan();
  EXPECT_EQ(plan.runs.size(), 6U);
  const auto count = [&](const std::string& name) {
    return std::count_if(plan.stages.begin(), plan.stages.end(), [&](const auto& stage) { return stage.name == name; });
  };
  EXPECT_EQ(count("pretrained"), 1);
  EXPECT_EQ(count("split"), 3);
  EXPECT_EQ(count("language"), 4) << "one of the pinned model, one of each split";
  EXPECT_EQ(count("tuned"), 6);
  EXPECT_EQ(ids(plan).size(), plan.stages.size());
  const PlannedStage& pretrained = plan.stages.front();
  EXPECT_EQ(pretrained.arms, (std::vector<std::string>{"dense", "clustered"}));
  EXPECT_TRUE(pretrained.pinned);
  EXPECT_EQ(pretrained.seeds.at("init"), 1);
  EXPECT_EQ(pretrained.seeds.at("cluster"), 0) << "pretrain does not cluster";
}

TEST(Plan, every_stage_stands_before_its_readers) {
  const Plan plan = Loaded(small_recipe()).plan();
  std::set<std::string> before;
  for (const auto& stage : plan.stages) {
    for (const auto& input : stage.inputs) EXPECT_EQ(before.count(input.stage_id), 1U) << stage.name;
    before.insert(stage.id);
  }
}

TEST(Plan, T17_adding_a_seed_or_an_arm_leaves_what_is_there) {
  const auto before = ids(Loaded(small_recipe()).plan());
  const auto seeds = ids(Loaded(small_recipe_with("seeds = 3", "seeds = 5")).plan());
  const auto arms = ids(Loaded(small_recipe() + "[arm.more]\nstage.tuned.batch = 1\n").plan());
  EXPECT_TRUE(std::includes(seeds.begin(), seeds.end(), before.begin(), before.end()));
  EXPECT_TRUE(std::includes(arms.begin(), arms.end(), before.begin(), before.end()));
  EXPECT_EQ(seeds.size() - before.size(), 2U * 2 + 2 * (1 + 1 + 1 + 1))
      << "five seeds are a target: only the fourth and fifth are new";
}

TEST(Plan, T14_the_same_recipe_gives_the_same_stages) {
  const Loaded one(small_recipe()), other(small_recipe());
  EXPECT_EQ(ids(one.plan()), ids(other.plan()));
  EXPECT_EQ(one.recipe().hash, other.recipe().hash);
}

TEST(Plan, runs_take_turns_through_a_list_of_seeds_and_form_groups) {
  const Plan plan = Loaded(small_recipe_with("seed = 1", "seed = [7, 8]"), {{false, "recipe.seeds=4"}}).plan();
  const auto pretrained = [&](int seed) { return plan.stage(plan.run("dense", seed)->stages[0].id); };
  EXPECT_EQ(pretrained(1)->seeds.at("init"), 7);
  EXPECT_EQ(pretrained(2)->seeds.at("init"), 8);
  EXPECT_EQ(pretrained(3)->id, pretrained(1)->id);
  EXPECT_EQ(plan.run("dense", 1)->group, plan.run("dense", 3)->group);
  EXPECT_NE(plan.run("dense", 1)->group, plan.run("dense", 2)->group);
  EXPECT_FALSE(plan.run("dense", 1)->group.empty());
}

TEST(Plan, one_pinned_model_or_a_seed_for_each_run_makes_no_groups) {
  for (const auto& run : Loaded(small_recipe()).plan().runs) EXPECT_EQ(run.group, "");
  const Plan plan = Loaded(small_recipe_with("task = \"supersense\"", "task = \"supersense\"\nseed = [11, 12, 13]")).plan();
  for (const auto& run : plan.runs) EXPECT_EQ(run.group, "");
  const auto tuned =
      std::find_if(plan.stages.begin(), plan.stages.end(), [](const auto& stage) { return stage.name == "tuned"; });
  EXPECT_FALSE(tuned->pinned) << "each run has its own";
  EXPECT_EQ(tuned->seeds.at("data"), 11);
}

TEST(Plan, a_seed_can_be_pinned_for_one_purpose) {
  const Plan plan = Loaded(small_recipe_with("task = \"supersense\"", "task = \"supersense\"\nseed = { init = 5 }")).plan();
  for (int seed = 1; seed <= 3; ++seed) {
    const auto* run = plan.run("dense", seed);
    const auto found = std::find_if(run->stages.begin(), run->stages.end(), [](const auto& one) { return one.name == "tuned"; });
    EXPECT_EQ(plan.stage(found->id)->seeds.at("init"), 5);
    EXPECT_EQ(plan.stage(found->id)->seeds.at("data"), seed);
  }
}

TEST(Plan, what_the_host_hands_on_is_there) {
  const Plan plan = Loaded(small_recipe()).plan();
  EXPECT_EQ(plan.recipe_name, "small");
  EXPECT_EQ(plan.baseline, "dense");
  EXPECT_EQ(plan.tasks, (std::vector<std::string>{"supersense"}));
  EXPECT_EQ(plan.corpus.at("tokenizer").at("vocabulary"), 4096);
  ASSERT_EQ(plan.arms.size(), 2U);
  EXPECT_EQ(plan.arms[0].patch_text, R"({"stage":{"language":{"from":"pretrained"},"tuned":{"from":"pretrained"}}})");
  const auto split =
      std::find_if(plan.stages.begin(), plan.stages.end(), [](const auto& stage) { return stage.name == "split"; });
  ASSERT_EQ(split->components.size(), 3U);
  EXPECT_EQ(split->components[2].slot, "feed_forward.router");
  EXPECT_EQ(split->components[2].component->build_id, "build-routers");
  EXPECT_EQ(split->corpus_hash, "");
}

}  // namespace
}  // namespace moiety::host
