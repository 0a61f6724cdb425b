// Counts: what they are for a stage, and the claims and `equal` that they decide, with made-up figures.
#include "kernel/host/claims/costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "kernel/host/claims/equal.h"
#include "kernel/host/claims/judge.h"
#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

using testing::Loaded;

/// small_recipe(), or with k = 2, 4 in the arm clustered. Costs by the name of the stage.
class Costs : public ::testing::Test {
 protected:
  void load(const std::string& claims, bool along_k = false, int seeds = 3) {
    std::string text = along_k ? testing::small_recipe_with("k = 8", "k = \"${k}\"") : testing::small_recipe();
    text.erase(text.find("[claim.better]"));
    loaded_ = std::make_unique<Loaded>(text + (along_k ? "[axes]\nk = [2, 4]\n" : "") + claims,
                                       std::vector<Override>{{false, "recipe.seeds=" + std::to_string(seeds)}});
    ASSERT_TRUE(loaded_->good()) << loaded_->error();
    plan_ = loaded_->plan();
    by_name_ = {{"pretrained", {{"tokens", 1000}, {"flops", 6000}, {"total_parameters", 100}, {"active_parameters", 100}}},
                {"split", {{"tokens", 0}, {"flops", 50}, {"total_parameters", 120}, {"active_parameters", 60}}},
                {"tuned", {{"tokens", 300}, {"flops", 900}, {"total_parameters", 120}, {"active_parameters", 60}}}};
  }

  CountsOf counts() const {
    return [this](const std::string& id) {
      const auto found = by_name_.find(plan_.stage(id)->name);
      return found == by_name_.end() ? StageCounts{} : found->second;
    };
  }

  Reading cost(const std::string& name, const std::string& arm, const std::string& stage,
               const std::map<std::string, double>& times = {}) {
    PlanCosts costs(plan_, counts(), [this](const std::string& id) { return states_.count(id) == 0 ? "done" : states_.at(id); });
    const PlannedRun& run = *plan_.run(arm, 1);
    for (const auto& one : run.stages) {
      if (one.name == stage) return costs.of(name, run, one, times);
    }
    return {0, "no such stage", false};
  }

  std::map<std::string, registry::VerdictRow> verdicts() {
    Measured measured;
    measured.state = [](const std::string&) { return ""; };
    measured.final_rows = [](const std::string&) { return std::vector<registry::MetricRow>(); };
    measured.counts = counts();
    measured.equal_unknown = equal_unknown_;
    std::map<std::string, registry::VerdictRow> whole;
    for (const auto& row : judge(loaded_->recipe().claims, plan_, measured)) {
      if (row.statement.empty()) whole[row.claim_id] = row;
    }
    return whole;
  }

  std::unique_ptr<Loaded> loaded_;
  Plan plan_;
  std::map<std::string, StageCounts> by_name_;
  std::map<std::string, std::string> states_;
  std::set<std::string> equal_unknown_;
};

TEST_F(Costs, of_a_training_stage_its_own_and_of_a_measuring_stage_all_that_its_model_needed) {
  load("");
  EXPECT_EQ(cost("flops", "clustered", "tuned").value, 900);
  EXPECT_EQ(cost("flops", "clustered", "score").value, 6000 + 50 + 900);
  EXPECT_EQ(cost("flops", "dense", "score").value, 6000 + 900);
  EXPECT_EQ(cost("tokens", "clustered", "language").value, 1000);
  EXPECT_EQ(cost("active_parameters", "clustered", "language").value, 60) << "of the model it reads";
  EXPECT_EQ(cost("total_parameters", "dense", "language").value, 100);
  EXPECT_EQ(cost("trainable_parameters", "clustered", "score").value, 120) << "all, where nothing else is said";
  by_name_["tuned"]["trainable_parameters"] = 7;
  EXPECT_EQ(cost("trainable_parameters", "clustered", "score").value, 7);
  EXPECT_EQ(cost("step_seconds", "clustered", "score").problem, "run clustered/1: `step_seconds` of stage tuned is not known");
}

TEST_F(Costs, stages_along_an_axis_count_so_many_times) {
  load("", true);
  EXPECT_EQ(cost("flops", "clustered", "score", {{"k", 1}}).value, 6000 + 50 + 900);
  EXPECT_EQ(cost("flops", "clustered", "score", {{"k", 50}}).value, 6000 + 50 * (50 + 900)) << "the pretrained one is shared";
  EXPECT_EQ(cost("flops", "clustered", "tuned", {{"k", 50}}).value, 50 * 900);
}

TEST_F(Costs, what_one_stage_collects_from_several_labels_is_shared_out) {
  std::string text = testing::small_recipe_with("[stage.split]",
                                                "[stage.branch]\ndo = \"pretrain\"\nfrom = \"pretrained\"\nbudget = "
                                                "\"${length}\"\n\n[stage.split]");
  const std::string from = "from = \"pretrained\"\nfeed_forward.experts";
  text.replace(text.find(from), from.size(), "from = [\"branch(length=*)\"]\nfeed_forward.experts");
  loaded_ = std::make_unique<Loaded>(text + "[axes]\nlength = [\"1k tokens\", \"2k tokens\"]\n");
  ASSERT_TRUE(loaded_->good()) << loaded_->error();
  plan_ = loaded_->plan();
  by_name_ = {
      {"pretrained", {{"flops", 6000}}}, {"branch", {{"flops", 100}}}, {"split", {{"flops", 50}}}, {"tuned", {{"flops", 9}}}};
  EXPECT_EQ(cost("flops", "clustered", "score").value, 6000 + 200 + 50 + 9);
  EXPECT_EQ(cost("flops", "clustered", "score", {{"length", 50}}).value, 6000 + 50 * 100 + 50 + 9) << "fifty branches";
}

TEST_F(Costs, a_training_of_which_a_point_is_read_counts_up_to_there) {
  load("");
  const auto split_reads = [&](const std::string& point) {
    for (auto& stage : plan_.stages) {
      if (stage.name == "split") stage.inputs[0].snapshot = point;
    }
  };
  split_reads("10%");
  EXPECT_EQ(cost("flops", "clustered", "score").value, 600 + 50 + 900);
  EXPECT_EQ(cost("total_parameters", "clustered", "score").value, 120);
  split_reads("0.5k tokens");
  EXPECT_EQ(cost("tokens", "clustered", "score").value, 500 + 300);
  for (auto& stage : plan_.stages) {
    if (stage.name == "tuned") stage.results_of = {plan_.run("dense", 1)->stages[0].id};
  }
  EXPECT_EQ(cost("flops", "clustered", "score").value, 6000 + 50 + 900) << "a result needs the whole";
}

TEST_F(Costs, a_run_that_waits_for_results_is_not_one_that_skips) {
  load("[claim]\nb = { that = 'score.flops(clustered) > score.flops(dense)', equal = { flops = '100%' } }\n");
  for (auto& run : plan_.runs) {
    if (run.arm != "clustered") continue;
    run.waits = true;
    run.stages.pop_back();
    run.stages.erase(std::remove_if(run.stages.begin(), run.stages.end(), [](const auto& one) { return one.name == "score"; }),
                     run.stages.end());
  }
  EXPECT_EQ(check_equal(loaded_->recipe().claims, plan_, counts()).unknown, std::set<std::string>{"b"});
  auto rows = verdicts();
  EXPECT_EQ(rows["b"].verdict, "undecided");
  EXPECT_NE(rows["b"].reason.find("run clustered/1 has no stage score: a result is not known"), std::string::npos)
      << rows["b"].reason;
}

TEST_F(Costs, diverged_is_a_metric) {
  load("");
  EXPECT_EQ(cost("diverged", "dense", "score").value, 0);
  for (const auto& one : plan_.run("clustered", 1)->stages) {
    if (one.name == "tuned") states_[one.id] = "diverged";
    if (one.name == "score") states_[one.id] = "skipped";
  }
  EXPECT_EQ(cost("diverged", "clustered", "score").value, 1);
  EXPECT_EQ(cost("diverged", "clustered", "language").value, 0);
  for (auto& [id, state] : states_) state = "failed";
  EXPECT_EQ(cost("diverged", "clustered", "score").problem, "run clustered/1: stage tuned is failed");
}

TEST_F(Costs, claims_of_counts_need_no_runs_and_no_seeds) {
  load(
      "[claim]\nfew.that = 'score.flops(clustered) <= 1.03 * score.flops(dense)'\n"
      "many.that = 'tuned.flops(clustered) > tuned.flops(dense)'\n"
      "same.that = 'score.tokens(clustered) = score.tokens(dense)'\n"
      "below.that = ['score.active_parameters(clustered) < 0.7 * pretrained.active_parameters(dense)', 'score.flops(clustered) - "
      "score.flops(dense) in 50..60']\nabove.that = 'score.flops(clustered) ~ score.flops(dense) within 0.1%'\n"
      "unknown.that = 'tuned.cpu_seconds(clustered) < tuned.cpu_seconds(dense)'\n",
      false, 1);
  auto rows = verdicts();
  EXPECT_EQ(rows["few"].verdict, "supported") << rows["few"].reason;
  EXPECT_EQ(rows["few"].unit, "FLOPs");
  EXPECT_NEAR(*rows["few"].effect, 6950 - 1.03 * 6900, 1e-9);
  EXPECT_EQ(rows["many"].verdict, "refuted") << "equal counts are not above";
  EXPECT_EQ(rows["same"].verdict, "supported");
  EXPECT_EQ(rows["below"].verdict, "supported");
  EXPECT_EQ(rows["above"].verdict, "refuted");
  EXPECT_EQ(rows["unknown"].verdict, "undecided");
  EXPECT_EQ(rows["unknown"].reason,
            "run clustered/1: `cpu_seconds` of stage tuned is not known; run dense/1: `cpu_seconds` of stage tuned is not known");
}

TEST_F(Costs, multipliers_and_trends_of_counts_in_claims) {
  load(
      "[claim]\nonce.that = 'score.flops(clustered, k*1) < 7000'\nfifty.that = 'score.flops(clustered, k*50) > 50000'\n"
      "pinned.that = 'score.flops(clustered, k=4, k*2) in 7900..7900'\nrises.that = 'score.flops(clustered) rises along k'\n"
      "stays.that = 'score.flops(clustered) stays along k within 0'\neach = { that = 'score.tokens(clustered) = 1300', every = "
      "'k' }\n",
      true, 1);
  auto rows = verdicts();
  for (const char* id : {"once", "fifty", "pinned", "stays", "each"})
    EXPECT_EQ(rows[id].verdict, "supported") << id << rows[id].reason;
  EXPECT_EQ(rows["rises"].verdict, "refuted") << "counts that stay do not rise";
}

TEST_F(Costs, equal_is_decided_before_the_run_with_both_figures) {
  load(
      "[claim]\nwide = { that = 'accuracy(clustered) > accuracy(dense)', equal = { flops = '1%', tokens = '0%' } }\n"
      "narrow = { that = 'accuracy(clustered) > accuracy(dense)', equal = { flops = '0.5%', active_parameters = 0 } }\n"
      "before = { that = 'tuned.valid_accuracy(clustered) > score.accuracy(clustered)', equal = { flops = '0%' } }\n");
  const auto check = check_equal(loaded_->recipe().claims, plan_, counts());
  EXPECT_EQ(check.problems, (std::vector<std::string>{
                                "claim.narrow: `equal` asks for equal flops within 0.5%, and they differ by 0.719%: 6950 of "
                                "score(clustered), 6900 of score(dense)"}));
  EXPECT_TRUE(check.unknown.empty());
}

TEST_F(Costs, equal_looks_at_each_label_and_at_labels_of_one_stage) {
  load(
      "[claim]\nlabels = { that = 'accuracy(clustered, k=2) > accuracy(clustered, k=4)', equal = { flops = '1%' } }\n"
      "each = { that = 'accuracy(clustered) > accuracy(dense)', every = 'k', equal = { flops = '0%' } }\n",
      true);
  const auto own = counts();
  const auto check = check_equal(loaded_->recipe().claims, plan_, [&](const std::string& id) {
    StageCounts one = own(id);
    const auto& labels = plan_.stage(id)->labels;
    if (plan_.stage(id)->name == "tuned" && labels.count("k") != 0) one["flops"] = labels.at("k") == "4" ? 1900 : 850;
    return one;
  });
  EXPECT_EQ(check.problems,
            (std::vector<std::string>{"claim.labels: `equal` asks for equal flops within 1%, and they differ by 13.2%: 6900 of "
                                      "score(clustered, k=2), 7950 of score(clustered, k=4)",
                                      "claim.each: `equal` asks for equal flops within 0%, and they differ by 13.2%: 7950 of "
                                      "score(clustered), 6900 of score(dense) [k=4]"}));
}

TEST_F(Costs, equal_that_nobody_knows_before_is_checked_when_the_claim_is_judged) {
  load(
      "[claim]\na = { that = 'score.flops(clustered) > 1', equal = { flops = '0%' } }\n"
      "b = { that = 'score.flops(clustered) > score.flops(dense)', equal = { flops = '0.5%' } }\n");
  by_name_["split"].clear();
  const auto before = check_equal(loaded_->recipe().claims, plan_, counts());
  EXPECT_TRUE(before.problems.empty());
  EXPECT_EQ(before.unknown, std::set<std::string>{"b"}) << "a has one arm";
  by_name_["split"]["flops"] = 50;
  equal_unknown_ = before.unknown;
  auto rows = verdicts();
  EXPECT_EQ(rows["a"].verdict, "supported");
  EXPECT_EQ(rows["b"].verdict, "undecided");
  EXPECT_EQ(rows["b"].reason.substr(0, 60), "claim.b: `equal` asks for equal flops within 0.5%, and they ") << rows["b"].reason;
}

}  // namespace
}  // namespace moiety::host
