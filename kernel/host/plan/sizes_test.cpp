#include "kernel/host/plan/sizes.h"

#include <gtest/gtest.h>

#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

using testing::fixture_catalog;
using testing::Loaded;
using testing::small_recipe;

const PreparedData prepared_data = {"corpus-hash", {{"supersense", "task-hash"}}};

/// A fresh model has 10000 parameters and 10 for each neuron, of which 128 are there when nothing is said; a construction adds
/// 5000, and 1000 more with each seed; half of all are active.
struct Worker {
  std::int64_t multiple = 1;   ///< of which numbers of neurons have to be
  bool counts_experts = true;  ///< before the construction has run

  BudgetCost cost_of(const Plan& plan, const PlannedStage& stage) const {
    double total = 0;
    bool estimate = false;
    for (const auto& input : stage.inputs) {
      const auto read = cost_of(plan, *plan.stage(input.stage_id));
      total += read.total_parameters;
      estimate = estimate || read.estimate;
    }
    if (!stage.model.is_null()) {
      const auto neurons = stage.model.value("feed_forward_width", std::int64_t{128});
      total = neurons % multiple == 0 || neurons == 128 ? 10000.0 + 10.0 * static_cast<double>(neurons) : 0;
    }
    if (stage.verb->name == "construct") {
      total += 4000 + 1000 * static_cast<double>(stage.seeds.at("cluster"));
      estimate = !counts_experts;
    }
    return {0, 0, total, total / 2, estimate};
  }
  AskCosts ask() const {
    return
        [*this](const Plan& plan, const std::vector<const PlannedStage*>& stages) -> Result<std::map<std::string, BudgetCost>> {
          std::map<std::string, BudgetCost> costs;
          for (const auto* stage : stages) costs[stage->id] = cost_of(plan, *stage);
          return costs;
        };
  }
};

PlanFacts found(const Loaded& loaded, const Worker& worker = {}) {
  PlanFacts facts;
  EXPECT_TRUE(loaded.good()) << loaded.error();
  EXPECT_TRUE(solve_sizes(loaded.recipe(), fixture_catalog(), prepared_data, worker.ask(), facts).has_value());
  return facts;
}

std::string wide(const std::string& size, const std::string& more = "") {
  return small_recipe() + "[arm.wide]\nextends = 'dense'\nmodel.feed_forward_width = '" + size + "'\n" + more;
}

TEST(Sizes, the_nearest_one_is_taken_in_each_run) {
  const Loaded loaded(wide("total parameters of clustered"));
  const auto facts = found(loaded);
  ASSERT_EQ(facts.sizes.size(), 3U);
  // clustered: 11280 + 5000 with the first seed, and 1000 more with each.
  EXPECT_EQ(facts.sizes.at({"wide", "pretrained", {}, 1}).value, 628);
  EXPECT_EQ(facts.sizes.at({"wide", "pretrained", {}, 3}).value, 828);
  EXPECT_EQ(sizes_text(loaded.recipe(), facts)[0],
            "feed_forward_width = 628 in stage.pretrained (arm wide): 16280 total parameters, arm clustered has 16280 (+0 %)");
  const Plan plan = build_plan(loaded.recipe(), fixture_catalog(), prepared_data, facts);
  EXPECT_TRUE(plan.waiting.empty());
  const auto* stage = plan.stage(plan.run("wide", 3)->stages.front().id);
  EXPECT_EQ(stage->model.at("feed_forward_width"), 828);
  EXPECT_EQ(stage->recorded_model.at("feed_forward_width"), "total parameters of clustered") << "one text for all seeds";
  EXPECT_NE(loaded.recipe().resolved_text.find("total parameters of clustered"), std::string::npos);
}

TEST(Sizes, of_those_that_the_model_takes) {
  Worker worker;
  worker.multiple = 12;
  const auto facts = found(Loaded(wide("active parameters of clustered")), worker);
  EXPECT_EQ(facts.sizes.at({"wide", "pretrained", {}, 1}).value, 624);
  EXPECT_EQ(facts.sizes.at({"wide", "pretrained", {}, 1}).wanted, 8140);
}

TEST(Sizes, wait_until_the_experts_of_the_other_arm_are_counted) {
  Worker worker;
  worker.counts_experts = false;
  const Loaded loaded(wide("total parameters of clustered"));
  const auto facts = found(loaded, worker);
  EXPECT_TRUE(facts.sizes.empty());
  EXPECT_TRUE(facts.unsolvable_sizes.empty());
  const Plan plan = build_plan(loaded.recipe(), fixture_catalog(), prepared_data, facts);
  ASSERT_FALSE(plan.waiting.empty());
  EXPECT_EQ(plan.waiting[0].after, (std::vector<std::string>{"the parameters of clustered"}));
}

TEST(Sizes, an_arm_may_follow_one_that_follows) {
  const auto facts =
      found(Loaded(wide("total parameters of clustered",
                        "[arm.half]\nextends = 'dense'\nmodel.feed_forward_width = 'active parameters of wide'\n"
                        "[arm.same]\nextends = 'dense'\nmodel.feed_forward_width = 'total parameters of wide'\n")));
  EXPECT_EQ(facts.sizes.at({"wide", "pretrained", {}, 2}).value, 728);
  EXPECT_EQ(facts.sizes.at({"half", "pretrained", {}, 2}).value, 728) << "half of it is active in both";
  EXPECT_EQ(facts.sizes.at({"same", "pretrained", {}, 2}).value, 728);
}

TEST(Sizes, what_no_size_can_reach_is_told) {
  const Loaded loaded(small_recipe() +
                      "[arm.small]\nextends = 'clustered'\nmodel.feed_forward_width = 'total parameters of dense'\n"
                      "[arm.alone]\nmodel.feed_forward_width = 'total parameters of dense'\n"
                      "stage.extra = { do = 'evaluate', from = 'pretrained' }\n"
                      "unset = ['stage.language', 'stage.score', 'stage.tuned', 'stage.split']\n");
  Worker worker;
  const auto facts = found(loaded, worker);
  EXPECT_EQ(facts.unsolvable_sizes.at({"small", "pretrained", {}}),
            "with `feed_forward_width` = 1 arm `small` has 15010 total parameters, arm `dense` 11280: no size makes them equal");
  EXPECT_EQ(facts.unsolvable_sizes.at({"alone", "pretrained", {}}),
            "no measuring stage of arm `alone` that reads this model stands in arm `dense` too");
}

}  // namespace
}  // namespace moiety::host
