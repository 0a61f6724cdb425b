// What concerns claims beyond their own statement: `explore`, and verdicts after Holm over all claims of a study.
#include <gtest/gtest.h>

#include <memory>

#include "kernel/host/claims/judge.h"
#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

using registry::VerdictRow;

/// Accuracy in the sets test and ood: dense 0.5, clustered higher by `lead` in each seed.
std::vector<VerdictRow> judged_study(const std::string& claims, const std::vector<double>& lead) {
  std::string text = testing::small_recipe_with("on = [\"test\"]", "on = [\"test\", \"ood\"]");
  text.erase(text.find("[claim.better]"));
  const testing::Loaded loaded(text + claims, {{false, "recipe.seeds=" + std::to_string(lead.size())}});
  EXPECT_TRUE(loaded.good()) << loaded.error();
  if (!loaded.good()) return {};
  const Plan plan = loaded.plan();
  std::map<std::string, std::vector<registry::MetricRow>> rows;
  for (const auto& run : plan.runs) {
    for (const auto& stage : run.stages) {
      if (stage.name != "score") continue;
      const double more = run.arm == "dense" ? 0 : lead[static_cast<std::size_t>(run.seed) - 1];
      for (const char* set : {"test", "ood"}) rows[stage.id].push_back({"accuracy", {{"set", set}}, 0, 0.5 + more});
    }
  }
  Measured measured;
  measured.state = [](const std::string&) { return "done"; };
  measured.final_rows = [&](const std::string& id) { return rows[id]; };
  return judge(loaded.recipe().claims, plan, measured);
}

TEST(Explore, is_reported_with_its_interval_and_without_verdict) {
  const auto rows = judged_study(
      "[claim]\none = { explore = 'accuracy(clustered) - accuracy(dense)', at = { set = 'test' } }\n"
      "each = { explore = 'accuracy(clustered)', every = 'set' }\nlist = { explore = ['accuracy(dense)', 'accuracy(clustered)'], "
      "at = { set = 'ood' } }\n",
      {0.1, 0.11, 0.12});
  ASSERT_EQ(rows.size(), 1U + 3U + 3U);
  EXPECT_EQ(rows[0].verdict, "explored");
  EXPECT_EQ(rows[0].adjusted, "");
  EXPECT_NEAR(*rows[0].effect, 0.11, 1e-12);
  EXPECT_LT(*rows[0].low, 0.11);
  EXPECT_EQ(rows[0].n, 3);
  EXPECT_EQ(rows[1].statement, "accuracy(clustered) [set=test]");
  EXPECT_EQ(rows[3].statement, "");
  EXPECT_EQ(rows[3].verdict, "explored");
  EXPECT_EQ(rows[3].reason, "2 values");
}

TEST(Explore, what_is_missing_is_named) {
  const auto rows = judged_study("[claim.one]\nexplore = 'language.loss(clustered)'\n", {0.1, 0.2, 0.3});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].verdict, "explored");
  EXPECT_EQ(rows[0].n, 0);
  EXPECT_NE(rows[0].reason.find("language.loss was not recorded"), std::string::npos) << rows[0].reason;
}

TEST(HolmOverClaims, the_adjusted_verdict_stands_beside) {
  // The first is clear; the two others hold at 95 % each, but not at 97.5 %.
  const std::vector<double> lead = {0.01, 0.015, 0.0, 0.02, 0.013};
  const std::string clear = "clear = { that = 'accuracy(clustered) > 0.4', at = { set = 'test' } }\n";
  const std::string close = "close = { that = 'accuracy(clustered) > accuracy(dense)', at = { set = 'test' } }\n";
  const std::string wrong = "wrong = { that = 'accuracy(clustered) < accuracy(dense)', at = { set = 'ood' } }\n";
  const std::string explored = "explored = { explore = 'accuracy(clustered)', at = { set = 'ood' } }\n";
  std::map<std::string, std::pair<std::string, std::string>> found;
  const auto study = [&](const std::string& claims) {
    found.clear();
    for (const auto& row : judged_study("[claim]\n" + claims, lead)) found[row.claim_id] = {row.verdict, row.adjusted};
  };
  using Both = std::pair<std::string, std::string>;
  study(clear + close + explored);
  EXPECT_EQ(found["clear"], Both("supported", "supported"));
  EXPECT_EQ(found["close"], Both("supported", "supported")) << "the second of two is judged at full confidence";
  EXPECT_EQ(found["explored"], Both("explored", ""));
  study(clear + close + wrong);
  EXPECT_EQ(found["clear"], Both("supported", "supported"));
  EXPECT_EQ(found["close"], Both("supported", "undecided"));
  EXPECT_EQ(found["wrong"], Both("refuted", "undecided"));
}

}  // namespace
}  // namespace moiety::host
