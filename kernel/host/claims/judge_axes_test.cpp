// Verdicts along axes, of functions and of measures, with made-up numbers of known verdict.
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "kernel/host/claims/correlation.h"
#include "kernel/host/claims/judge.h"
#include "kernel/host/claims/verdicts.h"
#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

using testing::Loaded;

/// Arms dense and clustered; k = 1, 2, 4, 8, 16 varies in clustered alone; sets test and ood.
class AlongAxes : public ::testing::Test {
 protected:
  /// Accuracy of an arm, at one k ("" in dense), seed and set.
  using Accuracy = std::function<double(const std::string& k, int seed, const std::string& set)>;

  void load(const std::string& claims, const Accuracy& dense, const Accuracy& clustered) {
    std::string text = testing::small_recipe_with("k = 8", "k = \"${k}\"");
    text.replace(text.find("on = [\"test\"]"), 13, "on = [\"test\", \"ood\"]");
    text.erase(text.find("[claim.better]"));
    loaded_ = std::make_unique<Loaded>(text + "[axes]\nk = [1, 2, 4, 8, 16]\n" + claims,
                                       std::vector<Override>{{false, "recipe.seeds=5"}});
    ASSERT_TRUE(loaded_->good()) << loaded_->error();
    plan_ = loaded_->plan();
    for (const auto& run : plan_.runs) {
      for (const auto& stage : run.stages) {
        if (stage.name != "score") continue;
        const auto label = stage.labels.find("k");
        const std::string k = label == stage.labels.end() ? "" : label->second;
        for (const char* set : {"test", "ood"})
          rows_[stage.id].push_back({"accuracy", {{"set", set}}, 0, (run.arm == "dense" ? dense : clustered)(k, run.seed, set)});
      }
    }
  }

  std::map<std::string, std::string> verdicts() {
    if (!loaded_->good()) return {{"recipe", "does not load"}};
    Measured measured;
    measured.state = [](const std::string&) { return "done"; };
    measured.final_rows = [this](const std::string& id) { return rows_[id]; };
    all_ = judge(loaded_->recipe().claims, plan_, measured);
    std::map<std::string, std::string> whole;
    for (const auto& row : all_) {
      if (row.statement.empty()) whole[row.claim_id] = row.verdict;
    }
    return whole;
  }

  std::unique_ptr<Loaded> loaded_;
  Plan plan_;
  std::map<std::string, std::vector<registry::MetricRow>> rows_;
  std::vector<registry::VerdictRow> all_;
};

double wobble(int seed) { return 0.001 * ((seed * 7) % 5); }
double flat(const std::string&, int seed, const std::string&) { return 0.5 + wobble(seed); }
double rising(const std::string& k, int seed, const std::string& set) {
  return 0.5 + 0.02 * std::stod(k) + 0.3 * wobble(seed * 3 + std::stoi(k)) - (set == "ood" ? 0.1 : 0);
}
double hill(const std::string& k, int seed, const std::string&) {
  return 0.6 - 0.01 * std::abs(std::stod(k) - 4) + wobble(seed + std::stoi(k)) / 5;
}

using Verdicts = std::map<std::string, std::string>;

TEST_F(AlongAxes, every_most_and_some_labels) {
  load(
      "[defaults.claim]\nat.set = 'test'\n[claim]\n"
      "every = { that = 'accuracy(clustered) > accuracy(dense)', every = 'k' }\n"
      "most = { that = 'accuracy(clustered) > accuracy(dense) by 3pp', most = 'k' }\n"
      "few = { that = 'accuracy(clustered) > accuracy(dense) by 10pp', most = 'k' }\n"
      "some = { that = 'accuracy(clustered) > accuracy(dense) by 10pp', some = 'k' }\n"
      "none = { that = 'accuracy(clustered) > accuracy(dense) by 50pp', some = 'k' }\n"
      "not-every = { that = 'accuracy(clustered) > accuracy(dense) by 10pp', every = 'k' }\n"
      "mean = { that = 'accuracy(clustered) > accuracy(dense) by 10pp', mean = 'k' }\n"
      "sets = { that = 'accuracy(clustered, k=16) > accuracy(dense)', every = ['set'] }\n"
      "seeds = { that = 'accuracy(clustered, k=2) > accuracy(dense)', by = 'all seeds' }\n",
      flat, rising);
  EXPECT_EQ(verdicts(), (Verdicts{{"every", "supported"},
                                  {"most", "supported"},
                                  {"few", "refuted"},
                                  {"some", "supported"},
                                  {"none", "refuted"},
                                  {"not-every", "refuted"},
                                  {"mean", "supported"},
                                  {"sets", "supported"},
                                  {"seeds", "supported"}}));
  EXPECT_EQ(all_[0].statement, "accuracy(clustered) > accuracy(dense) [k=1]");
  EXPECT_EQ(all_[4].statement, "accuracy(clustered) > accuracy(dense) [k=16]") << "in the order written";
  EXPECT_EQ(all_[5].statement, "");
}

TEST_F(AlongAxes, rises_falls_peaks_dips_and_stays) {
  const std::string claims =
      "[defaults.claim]\nat.set = 'test'\n[claim]\nrises.that = 'accuracy(clustered) rises along k'\n"
      "far.that = 'accuracy(clustered) rises along k by 50pp'\nfalls.that = 'accuracy(clustered) falls along k'\n"
      "peaks.that = 'accuracy(clustered) peaks along k'\ndips.that = 'accuracy(clustered) dips along k'\n"
      "stays.that = 'accuracy(clustered) stays along k within 1pp'\nwide.that = 'accuracy(clustered) stays along k within "
      "40pp'\n";
  load(claims, flat, rising);
  EXPECT_EQ(verdicts(), (Verdicts{{"rises", "supported"},
                                  {"far", "refuted"},
                                  {"falls", "refuted"},
                                  {"peaks", "refuted"},
                                  {"dips", "refuted"},
                                  {"stays", "refuted"},
                                  {"wide", "supported"}}));
  rows_.clear();
  load(claims, flat, hill);
  auto now = verdicts();
  EXPECT_EQ(now["peaks"], "supported");
  EXPECT_EQ(now["rises"], "refuted") << "a step falls";
  EXPECT_EQ(now["dips"], "refuted") << "the last label lies below every inner one";
}

TEST_F(AlongAxes, functions_go_over_axes) {
  load(
      "[defaults.claim]\nat.set = 'test'\n[claim]\n"
      "spearman.that = 'spearman(accuracy(clustered), accuracy(clustered, set=ood) over k) > 0.9'\n"
      "kendall.that = 'kendall(accuracy(clustered), 1 - accuracy(clustered) over k) < 0'\n"
      "agree.that = 'agree(accuracy(clustered) - accuracy(dense), accuracy(clustered) over k) > 0.9'\n"
      "where.that = 'agree(accuracy(clustered) - 0.6, accuracy(clustered) over k where score.accuracy(clustered) > 0.6) > 0.9'\n"
      "best.that = 'best(accuracy(clustered) over k) > accuracy(clustered, k=8)'\n"
      "worst.that = 'worst(accuracy(clustered) over k) < accuracy(clustered, k=2)'\n"
      "mean.that = 'mean(accuracy(clustered) over k) in 60pp..65pp'\nspread.that = 'spread(accuracy(clustered) over k) > 0.25'\n"
      "exponent.that = 'exponent(accuracy(clustered) over k) in 0.1..0.3'\n"
      "rank = { that = 'rank(accuracy(clustered) over set) < rank(accuracy(dense) over set)', at.k = 16 }\n",
      flat, rising);
  for (const auto& [id, verdict] : verdicts()) EXPECT_EQ(verdict, "supported") << id;
}

TEST_F(AlongAxes, measures_take_pins_and_labels_may_be_those_of_a_loop) {
  load(
      "[measure]\ngain = 'accuracy(clustered) - accuracy(dense)'\nlarge = 'gain(k=16)'\nlost = \"gain - gain(set='ood')\"\n"
      "[defaults.claim]\nat = { set = 'test', k = 1 }\n[claim]\npinned.that = 'gain(k=16) > gain'\nnested.that = 'large > 0.3'\n"
      "along.that = 'gain rises along k'\nquoted.that = 'lost in 0.09..0.11'\n"
      "others.that = 'accuracy(clustered, k!=16) < accuracy(clustered, k=16)'\n"
      "spare.that = 'accuracy(clustered, k=16) > accuracy(dense, k=16) by 20pp'\n",
      flat, rising);
  for (const auto& [id, verdict] : verdicts()) EXPECT_EQ(verdict, "supported") << id;
}

TEST(Correlation, known_values) {
  EXPECT_DOUBLE_EQ(*spearman({1, 2, 3, 4, 5}, {5, 6, 7, 8, 7}), 0.82078268166812329);
  EXPECT_NEAR(*kendall({12, 2, 1, 12, 2}, {1, 4, 7, 1, 0}), -0.47140452079103173, 1e-15);
  EXPECT_DOUBLE_EQ(*sign_agreement({1, -1, 2, 0}, {3, 1, 1, 1}), 2.0 / 3);
  EXPECT_NEAR(*log_slope({1, 2, 4}, {3, 12, 48}), 2, 1e-12);
  EXPECT_FALSE(spearman({1, 1}, {1, 2}));
  EXPECT_FALSE(sign_agreement({0}, {1}));
  EXPECT_FALSE(log_slope({1, 2}, {0, 1}));
}

TEST(Holm, counts_step_down) {
  // p = 0.01, 0.02, 0.2 against 0.05/3, 0.05/2, 0.05: two hold.
  const std::vector<double> p = {0.02, 0.2, 0.01};
  EXPECT_EQ(count_after_holm(3, 0.95, [&](std::size_t i, double level) { return p[i] < 1 - level; }), 2U);
}

}  // namespace
}  // namespace moiety::host
