#include "kernel/host/claims/judge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

using registry::MetricRow;
using registry::VerdictRow;
using testing::Loaded;
using testing::small_recipe_with;

/// A study whose measurements are made up: value(arm, seed, stage) → rows.
class Judging : public ::testing::Test {
 protected:
  void load(const std::string& claims, int seeds = 5) {
    loaded_ = std::make_unique<Loaded>(
        small_recipe_with("[claim.better]\nthat = \"accuracy(clustered) > accuracy(dense)\"\n", "[claim]\n" + claims),
        std::vector<Override>{{false, "recipe.seeds=" + std::to_string(seeds)}});
    ASSERT_TRUE(loaded_->good()) << loaded_->error();
    plan_ = loaded_->plan();
  }
  const std::string& id(const std::string& arm, int seed, const std::string& stage) const {
    for (const auto& one : plan_.run(arm, seed)->stages) {
      if (one.name == stage) return one.id;
    }
    static const std::string none;
    return none;
  }
  void accuracy(const std::string& arm, std::vector<double> values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      rows_[id(arm, static_cast<int>(i) + 1, "score")] = {{"accuracy", {{"set", "test"}}, 0, values[i]}};
  }
  std::vector<VerdictRow> verdicts() {
    Measured measured;
    measured.state = [this](const std::string& stage) {
      return states_.count(stage) != 0 ? states_[stage] : std::string("done");
    };
    measured.final_rows = [this](const std::string& stage) { return rows_[stage]; };
    measured.run_id = [](const std::string& arm, int seed) { return arm + std::to_string(seed); };
    return judge(loaded_->recipe().claims, plan_, measured);
  }

  std::unique_ptr<Loaded> loaded_;
  Plan plan_;
  std::map<std::string, std::vector<MetricRow>> rows_;
  std::map<std::string, std::string> states_;
};

TEST_F(Judging, a_clear_difference_is_supported_and_its_reverse_refuted) {
  load("up.that = 'accuracy(clustered) > accuracy(dense)'\ndown.that = 'accuracy(clustered) < accuracy(dense)'\n");
  accuracy("dense", {0.50, 0.51, 0.52, 0.50, 0.51});
  accuracy("clustered", {0.55, 0.56, 0.58, 0.55, 0.55});
  const auto rows = verdicts();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].verdict, "supported");
  EXPECT_EQ(rows[0].statement, "");
  EXPECT_NEAR(*rows[0].effect, 0.05, 1e-12);
  EXPECT_LT(*rows[0].low, 0.05);
  EXPECT_EQ(rows[0].n, 5);
  EXPECT_EQ(rows[0].unit, "share");
  EXPECT_EQ(rows[0].runs.size(), 10U);
  EXPECT_NE(rows[0].reason.find("over 5 runs of 1 pretrained"), std::string::npos) << rows[0].reason;
  EXPECT_EQ(rows[1].verdict, "refuted");
  EXPECT_NEAR(*rows[1].effect, 0.05, 1e-12) << "left minus right, whatever the sign";
  EXPECT_LT(*rows[1].low, *rows[1].high);
}

TEST_F(Judging, margins_by_within_and_ranges) {
  load(
      "a.that = 'accuracy(clustered) > accuracy(dense) by 4pp'\nb.that = 'accuracy(clustered) > accuracy(dense) by 20%'\n"
      "c.that = 'accuracy(clustered) ~ accuracy(dense) within 7pp'\nd.that = 'accuracy(clustered) <= accuracy(dense) within "
      "0.02'\n"
      "e.that = 'accuracy(clustered) in 0.5..0.6'\nf.that = 'accuracy(clustered) >= accuracy(dense) within 1pp'\n"
      "g = { that = 'accuracy(clustered) > accuracy(dense)', margin = '8pp' }\n");
  accuracy("dense", {0.50, 0.51, 0.52, 0.50, 0.51});
  accuracy("clustered", {0.55, 0.561, 0.57, 0.55, 0.56});
  std::map<std::string, std::string> verdict;
  for (const auto& row : verdicts()) verdict[row.claim_id] = row.verdict;
  EXPECT_EQ(verdict, (std::map<std::string, std::string>{{"a", "supported"},
                                                         {"b", "refuted"},
                                                         {"c", "supported"},
                                                         {"d", "refuted"},
                                                         {"e", "supported"},
                                                         {"f", "supported"},
                                                         {"g", "supported"}}));
}

TEST_F(Judging, identical_arms_decide_no_strict_comparison_and_are_about_equal) {
  load("a.that = 'accuracy(clustered) > accuracy(dense)'\nb.that = 'accuracy(clustered) ~ accuracy(dense) within 2pp'\n");
  accuracy("dense", {0.50, 0.51, 0.52, 0.50, 0.51});
  accuracy("clustered", {0.50, 0.51, 0.52, 0.50, 0.51});
  const auto rows = verdicts();
  EXPECT_EQ(rows[0].verdict, "undecided");
  EXPECT_EQ(rows[1].verdict, "supported");
}

TEST_F(Judging, fewer_than_three_seeds_decide_nothing) {
  load("a.that = 'accuracy(clustered) > accuracy(dense)'\n", 2);
  accuracy("dense", {0.1, 0.1});
  accuracy("clustered", {0.9, 0.91});
  const auto rows = verdicts();
  EXPECT_EQ(rows[0].verdict, "undecided");
  EXPECT_EQ(rows[0].n, 2);
}

TEST_F(Judging, T09_a_failed_diverged_or_missing_run_leaves_the_claim_undecided_and_is_named) {
  load("a.that = 'accuracy(clustered) > accuracy(dense)'\n");
  accuracy("dense", {0.50, 0.51, 0.52, 0.50, 0.51});
  accuracy("clustered", {0.55, 0.56, 0.58, 0.55, 0.55});
  states_[id("clustered", 3, "tuned")] = "diverged";
  states_[id("clustered", 3, "score")] = "skipped";
  rows_[id("dense", 2, "score")].clear();
  rows_[id("dense", 4, "score")][0].value = std::nan("");
  const auto rows = verdicts();
  EXPECT_EQ(rows[0].verdict, "undecided");
  EXPECT_NE(rows[0].reason.find("run clustered/3: stage tuned diverged"), std::string::npos) << rows[0].reason;
  EXPECT_NE(rows[0].reason.find("run dense/2: score.accuracy was not recorded"), std::string::npos) << rows[0].reason;
  EXPECT_NE(rows[0].reason.find("run dense/4: score.accuracy is nan"), std::string::npos) << rows[0].reason;
  EXPECT_EQ(rows[0].n, 2) << "what is there is still shown";
}

TEST_F(Judging, domains_are_averaged_and_perplexity_in_the_logarithm) {
  load(
      "a.that = 'perplexity(clustered) > perplexity(dense)'\nb.that = 'language.loss(clustered) > language.loss(dense)'\n"
      "c.that = 'perplexity(clustered, domain=law) > perplexity(dense)'\n");
  rows_[id("dense", 1, "language")] = {{"perplexity", {{"domain", "law"}}, 0, 4},
                                       {"perplexity", {{"domain", "art"}}, 0, 16},
                                       {"loss", {{"domain", "law"}}, 0, 1},
                                       {"loss", {{"domain", "art"}}, 0, 2}};
  for (int seed = 1; seed <= 5; ++seed) {
    rows_[id("clustered", seed, "language")] = {{"perplexity", {{"domain", "law"}}, 0, 9.0 + seed},
                                                {"perplexity", {{"domain", "art"}}, 0, 9.0 + seed},
                                                {"loss", {{"domain", "law"}}, 0, 2},
                                                {"loss", {{"domain", "art"}}, 0, 2}};
  }
  const auto rows = verdicts();
  EXPECT_NEAR(*rows[0].effect, 12 - 8, 1e-9) << "exp of the mean of ln 4 and ln 16 is 8";
  EXPECT_NEAR(*rows[1].effect, 0.5, 1e-12);
  EXPECT_NEAR(*rows[2].effect, 12 - 8, 1e-9);
}

TEST_F(Judging, runs_that_share_a_model_are_one_unit) {
  loaded_ = std::make_unique<Loaded>(small_recipe_with("seed = 1", "seed = [1, 2, 3]"),
                                     std::vector<Override>{{false, "recipe.seeds=6"}});
  ASSERT_TRUE(loaded_->good()) << loaded_->error();
  plan_ = loaded_->plan();
  accuracy("dense", {0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
  accuracy("clustered", {0.6, 0.61, 0.62, 0.6, 0.61, 0.62});
  const auto rows = verdicts();
  EXPECT_EQ(rows[0].n, 3);
  EXPECT_EQ(rows[0].verdict, "supported");
  EXPECT_NEAR(*rows[0].effect, 0.11, 1e-12);
}

TEST_F(Judging, a_list_is_supported_when_all_are_and_refuted_when_one_is_after_holm) {
  const std::string up = "'accuracy(clustered) > accuracy(dense)'", down = "'accuracy(clustered) < accuracy(dense)'",
                    far = "'accuracy(clustered) > 0.5551'";
  load("a.that = [" + up + ", " + up + "]\nb.that = [" + up + ", " + down + "]\nc.that = [" + up + ", " + far + "]\n");
  accuracy("dense", {0.50, 0.51, 0.52, 0.50, 0.51});
  accuracy("clustered", {0.55, 0.56, 0.57, 0.545, 0.56});
  std::map<std::string, std::string> whole;
  const auto rows = verdicts();
  EXPECT_EQ(rows.size(), 9U);
  for (const auto& row : rows) {
    if (row.statement.empty()) whole[row.claim_id] = row.verdict;
  }
  EXPECT_EQ(whole, (std::map<std::string, std::string>{{"a", "supported"}, {"b", "refuted"}, {"c", "undecided"}}));
}

TEST_F(Judging, holm_asks_more_of_each_refutation) {
  // One part is refuted at 95 % but not at 97.5 %: alone it refutes, beside another part it does not.
  load(
      "alone.that = 'accuracy(clustered) < accuracy(dense)'\n"
      "list.that = ['accuracy(clustered) < accuracy(dense)', 'accuracy(clustered) > accuracy(dense)']\n");
  accuracy("dense", {0.5, 0.5, 0.5, 0.5, 0.5});
  accuracy("clustered", {0.51, 0.515, 0.5, 0.52, 0.513});
  std::map<std::string, std::string> whole;
  for (const auto& row : verdicts()) {
    if (row.statement.empty()) whole[row.claim_id] = row.verdict;
  }
  EXPECT_EQ(whole["alone"], "refuted");
  EXPECT_EQ(whole["list"], "undecided");
}

TEST_F(Judging, arithmetic_of_runs) {
  load("a.that = 'abs(accuracy(dense) - accuracy(clustered)) / accuracy(dense) < 2 * (0.1 + 0.1)'\n");
  accuracy("dense", {0.5, 0.5, 0.5, 0.5, 0.5});
  accuracy("clustered", {0.6, 0.4, 0.6, 0.4, 0.61});
  const auto rows = verdicts();
  EXPECT_EQ(rows[0].verdict, "supported") << rows[0].reason;
  EXPECT_NEAR(*rows[0].effect, 0.204 - 0.4, 1e-9);
}

}  // namespace
}  // namespace moiety::host
