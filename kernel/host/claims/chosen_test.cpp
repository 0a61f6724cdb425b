// What arms choose on validation data, with made-up numbers.
#include "kernel/host/claims/chosen.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "kernel/host/claims/equal.h"
#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

using testing::Loaded;

/// Arms dense and clustered; both choose the learning rate of stage.tuned; k varies in clustered alone.
class Chosen : public ::testing::Test {
 protected:
  /// Validation accuracy of an arm, at a rate, k ("" in dense) and seed; test accuracy is twice as much.
  using Accuracy = std::function<double(const std::string& arm, const std::string& rate, const std::string& k, int seed)>;

  void load(const std::string& claims, const Accuracy& accuracy, const std::string& axes = "[axes]\nk = [4, 8]\n",
            const std::string& k = "k = \"${k}\"") {
    std::string text = testing::small_recipe_with("k = 8", k);
    text.replace(text.find("task = \"supersense\""), 19, "task = \"supersense\"\nlearning_rate = \"${rate}\"");
    text.erase(text.find("[claim.better]"));
    loaded_ = std::make_unique<Loaded>(
        text + axes + "[choose]\nrate = { among = [0.01, 0.001, 0.1], by = 'highest tuned.valid_accuracy' }\n" + claims,
        std::vector<Override>{{false, "recipe.seeds=5"}});
    ASSERT_TRUE(loaded_->good()) << loaded_->error();
    plan_ = loaded_->plan();
    for (const auto& run : plan_.runs) {
      for (const auto& stage : run.stages) {
        const auto label = [&](const char* axis) {
          const auto found = stage.labels.find(axis);
          return found == stage.labels.end() ? "" : found->second;
        };
        const double value = accuracy(run.arm, label("rate"), label("k"), run.seed);
        if (stage.name == "tuned") rows_[stage.id].push_back({"valid_accuracy", {}, 0, value});
        if (stage.name == "score") rows_[stage.id].push_back({"accuracy", {{"set", "test"}}, 0, 2 * value});
      }
    }
  }

  Choices chosen() {
    measured_.state = [this](const std::string& id) { return states_.count(id) != 0 ? states_[id] : "done"; };
    measured_.final_rows = [this](const std::string& id) { return rows_[id]; };
    measured_.run_id = [](const std::string& arm, int seed) { return arm + std::to_string(seed); };
    return choose(plan_, measured_);
  }

  /// "dense 0.01", "clustered k=4 0.1".
  static std::vector<std::string> texts(const Choices& choices) {
    std::vector<std::string> found;
    for (const auto& one : choices.made) {
      std::string text = one.arm;
      for (const auto& [axis, label] : one.labels) text.append(" ").append(axis).append("=").append(label);
      found.push_back(text + " " + (one.label.empty() ? one.reason : one.label));
    }
    return found;
  }

  std::unique_ptr<Loaded> loaded_;
  Plan plan_;
  Measured measured_;
  std::map<std::string, std::vector<registry::MetricRow>> rows_;
  std::map<std::string, std::string> states_;
};

double by_rate(const std::string& arm, const std::string& rate, const std::string& k, int seed) {
  // In a single seed another rate may be the best.
  const double noise = seed == 3 && rate == "0.1" ? 0.02 : 0.001 * seed;
  const std::string best = arm == "dense" ? "0.01" : k == "4" ? "0.001" : "0.1";
  return (arm == "dense" ? 0.3 : 0.35) + (rate == best ? 0.01 : 0) + noise;
}

using Lines = std::vector<std::string>;

TEST_F(Chosen, each_arm_reports_the_best_in_the_mean_over_its_seeds) {
  load("[claim.c]\nthat = 'accuracy(clustered) > accuracy(dense) by 8pp'\nevery = 'k'\n", by_rate);
  const auto choices = chosen();
  EXPECT_EQ(texts(choices), (Lines{"clustered k=4 0.001", "clustered k=8 0.1", "dense 0.01"}));
  EXPECT_NEAR(*choices.made[2].value, 0.3 + 0.01 + 0.003, 1e-12);
  for (const auto& run : choices.reported.runs) {
    for (const auto& stage : run.stages) EXPECT_EQ(stage.labels.count("rate"), 0U) << stage.name;
  }
  EXPECT_EQ(choices.reported.runs[0].stages.size(), 4U) << "pretrained, language, tuned, score";
  std::size_t reported = 0;
  for (const auto& trial : choices.trials) reported += trial.chosen ? 1 : 0;
  EXPECT_EQ(choices.trials.size(), 5U * 2 * (3 + 2 * 3)) << "tuned and score of five seeds";
  EXPECT_EQ(reported, 5U * 2 * (1 + 2));
  const auto rows = judge(loaded_->recipe().claims, choices.reported, measured_);
  EXPECT_EQ(rows.back().verdict, "supported") << rows.back().reason;
}

TEST_F(Chosen, a_trial_that_diverged_is_not_chosen_and_one_that_failed_leaves_it_open) {
  load("[claim.c]\nthat = 'accuracy(clustered) > accuracy(dense)'\n", by_rate, "", "k = 8");
  const auto state = [&](const std::string& arm, const std::string& rate, const std::string& to) {
    for (const auto& stage : plan_.run(arm, 2)->stages)
      if (stage.name == "tuned" && stage.labels.at("rate") == rate) states_[stage.id] = to;
  };
  state("clustered", "0.1", "diverged");
  EXPECT_EQ(texts(chosen()), (Lines{"clustered 0.01", "dense 0.01"})) << "of equal ones the first as written";
  state("dense", "0.001", "failed");
  const auto choices = chosen();
  ASSERT_EQ(choices.made.size(), 2U);
  EXPECT_EQ(choices.made[1].label, "");
  EXPECT_EQ(choices.made[1].reason, "run dense/2: stage tuned [rate=0.001] failed");
  const auto rows = judge(loaded_->recipe().claims, choices.reported, measured_);
  EXPECT_EQ(rows.back().verdict, "undecided");
  EXPECT_EQ(rows.back().reason, "choose.rate: run dense/2: stage tuned [rate=0.001] failed");
  for (const char* rate : {"0.01", "0.001", "0.1"}) state("dense", rate, "diverged");
  EXPECT_EQ(chosen().made[1].reason, "every trial diverged");
}

TEST_F(Chosen, choices_that_go_by_the_same_are_made_together) {
  std::string both = testing::small_recipe_with("k = 8", "k = \"${k}\"");
  both.replace(both.find("task = \"supersense\""), 19, "task = \"supersense\"\nlearning_rate = \"${rate}\"");
  both.erase(both.find("[claim.better]"));
  loaded_ = std::make_unique<Loaded>(both +
                                     "[choose]\nrate = { among = [0.1, 0.2], by = 'highest tuned.valid_accuracy' }\n"
                                     "k = { among = [4, 8], by = 'highest tuned.valid_accuracy' }\n");
  ASSERT_TRUE(loaded_->good()) << loaded_->error();
  plan_ = loaded_->plan();
  for (const auto& run : plan_.runs) {
    for (const auto& stage : run.stages) {
      if (stage.name != "tuned") continue;
      const bool large = stage.labels.at("rate") == "0.2";
      const bool many = stage.labels.count("k") != 0 && stage.labels.at("k") == "8";
      rows_[stage.id].push_back({"valid_accuracy", {}, 0, large == many ? 0.5 : 0.6 + (large ? 0.1 : 0)});
    }
  }
  EXPECT_EQ(texts(chosen()), (Lines{"clustered 4", "clustered 0.2", "dense 0.2"}));
}

TEST_F(Chosen, counts_are_decided_before_the_run_where_no_choice_changes_them) {
  load("[claim.c]\nthat = 'score.flops(clustered) = score.flops(dense)'\nequal = { flops = '1%' }\n", by_rate, "", "k = 8");
  const auto& claims = loaded_->recipe().claims;
  const CountsOf alike = [](const std::string&) { return StageCounts{{"flops", 5}}; };
  const CountsOf by_stage = [this](const std::string& id) {
    const auto* stage = plan_.stage(id);
    const auto rate = stage->labels.find("rate");
    return StageCounts{{"flops", rate != stage->labels.end() && rate->second == "0.1" ? 7 : 5}};
  };
  EXPECT_EQ(judge_counts(claims, plan_, alike).size(), 1U);
  EXPECT_TRUE(judge_counts(claims, plan_, by_stage).empty());
  EXPECT_FALSE(require_equal(claims, plan_, alike)) << "clustered is constructed, dense is not";
  EXPECT_EQ(*require_equal(claims, plan_, by_stage), (std::set<std::string>{"c"})) << "checked when it is known what was chosen";
}

}  // namespace
}  // namespace moiety::host
