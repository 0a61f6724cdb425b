// Metrics that components declare, and the axes that measuring adds.
#include "kernel/host/claims/stage_metrics.h"

#include <gtest/gtest.h>

#include "kernel/host/claims/judge.h"
#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

using testing::Loaded;

/// The made-up catalog with a verb that measures by a component, and metrics of a mixing scheduler.
const Catalog& measuring_catalog() {
  static const Catalog* catalog = [] {
    auto describe = testing::describe_json();
    describe["verbs"].push_back(nlohmann::json::parse(R"json(
      {"name": "inspect", "summary": "measures by a component", "measures": true, "leaves": "none",
       "inputs": [{"name": "from", "accepts": "model", "required": true, "list": false}],
       "needs": {"corpus": false, "task": false}, "seeds": [],
       "parameters": [{"name": "by", "type": "component", "kind": "inspector", "doc": "what is measured"},
                      {"name": "points", "type": "texts", "default": null, "doc": ""}],
       "metrics": [], "results": []})json"));
    auto probed = testing::probed_json();
    probed.push_back(nlohmann::json::parse(R"json(
      {"path": "/p/inspect.moiety.so", "size": 1, "mtime_ns": 1, "build_id": "b", "plugin": {"name": "p", "version": "1.0.0", "summary": ""},
       "components": [
         {"kind": "inspector", "name": "rarity", "version": 1, "summary": "", "source": "", "parameters": [], "outputs": [
           {"name": "value", "unit": "", "better": 1, "axes": ["bin"]},
           {"name": "loss", "unit": "nat", "better": -1, "axes": ["bin"]},
           {"name": "balance", "unit": "nat", "better": -1, "loss": true},
           {"name": "peak", "unit": "share", "result": true}]},
         {"kind": "mixing_scheduler", "name": "adaptive", "version": 1, "summary": "", "source": "", "parameters": [], "outputs": [
           {"name": "weight_change", "unit": "share", "better": 0, "axes": []}]}]})json"));
    return new Catalog(*Catalog::from_json(describe, probed));
  }();
  return *catalog;
}

std::string measuring_recipe(const std::string& claims) {
  std::string text = testing::small_recipe_with("budget = \"1.2M tokens\"", "budget = \"1.2M tokens\"\nmixing = \"adaptive\"");
  text.erase(text.find("[claim.better]"));
  return text + "[stage.rarity]\ndo = \"inspect\"\nfrom = \"tuned\"\nby = \"rarity\"\n" + claims;
}

TEST(StageMetrics, those_of_components_stand_behind_the_name_of_the_stage) {
  const Loaded loaded(measuring_recipe("[claim]\nmoved.that = 'pretrained.weight_change(dense) > 0.1'\n"
                                       "value = { that = 'value(clustered) > value(dense)', every = 'bin' }\n"
                                       "units.that = 'rarity.loss(clustered, bin=3) < score.loss(clustered)'\n"),
                      {}, measuring_catalog());
  ASSERT_TRUE(loaded.good()) << loaded.error();
  const auto& claims = loaded.recipe().claims;
  EXPECT_EQ(claims[0].statements[0].unit, "share");
  EXPECT_EQ(claims[1].statements[0].left->metric.stage, "rarity") << "the one measuring stage that has it";
  EXPECT_EQ(claims[1].statements[0].left->metric.bindings.at("bin").kind, Binding::Kind::loop);
  EXPECT_EQ(claims[2].statements[0].unit, "nat");
}

TEST(StageMetrics, axes_of_components_must_be_pinned_and_losses_and_results_are_no_metrics) {
  const auto error = [](const std::string& that) {
    return Loaded(measuring_recipe("[claim]\na.that = '" + that + "'\n"), {}, measuring_catalog()).error();
  };
  EXPECT_NE(error("value(dense) > 0.5").find("`value` of stage.rarity varies along `bin`: pin it"), std::string::npos);
  for (const char* name : {"balance", "peak"}) {
    const auto told = error(std::string("rarity.") + name + "(dense) > 0.5");
    EXPECT_NE(told.find(std::string("stage.rarity (inspect) has no metric `") + name + "`"), std::string::npos) << told;
    EXPECT_NE(told.find("metrics: value, loss"), std::string::npos) << told;
  }
  EXPECT_NE(error("rarity.value(dense, bin=1) > rarity.loss(dense, bin=1)").find("value is not comparable with nat"),
            std::string::npos);
}

TEST(StageMetrics, rows_of_all_labels_are_gone_over) {
  const Loaded loaded(
      measuring_recipe("[claim]\nrank.that = 'spearman(value(clustered), 5 - rarity.loss(clustered) over bin) > 0.9'\n"
                       "falls.that = 'rarity.loss(clustered) falls along bin'\n"),
      {}, measuring_catalog());
  ASSERT_TRUE(loaded.good()) << loaded.error();
  Measured measured;
  measured.state = [](const std::string&) { return "done"; };
  measured.final_rows = [](const std::string&) {
    std::vector<registry::MetricRow> rows;
    for (int bin = 1; bin <= 12; ++bin) {
      rows.push_back({"value", {{"bin", std::to_string(bin)}}, 0, 0.1 * bin});
      rows.push_back({"loss", {{"bin", std::to_string(bin)}}, 0, 5 - 0.1 * bin});
    }
    return rows;
  };
  for (const auto& row : judge(loaded.recipe().claims, loaded.plan(), measured)) {
    EXPECT_EQ(row.verdict, "supported") << row.claim_id << ": " << row.reason;
  }
}

RecipeStage measuring_stage(const VerbDeclaration& verb, nlohmann::json config) {
  RecipeStage stage;
  stage.name = "score";
  stage.verb = &verb;
  stage.config = std::move(config);
  stage.labels = {{"k", "2"}};
  return stage;
}

TEST(StageMetrics, recorded_axes_and_their_labels_come_from_what_the_stage_says) {
  VerbDeclaration verb;
  verb.measures = true;
  verb.metrics.resize(2);
  verb.metrics[0].name = "loss";
  verb.metrics[0].axes = {"domain"};
  verb.metrics[1].name = "accuracy";
  verb.metrics[1].axes = {"set", "progress"};
  using Texts = std::vector<std::string>;
  const RecipeArm arm;
  const auto one =
      measuring_stage(verb, {{"at", {"1%", "10%"}}, {"data", {{"domains", {"law", "art"}}}}, {"on", {"test", "ood"}}});
  EXPECT_EQ(axes_of(one, verb.metrics[0]), (Texts{"k", "domain", "progress"}));
  EXPECT_EQ(axes_of(one, *metric_of(one, "flops")), Texts{"k"});
  EXPECT_EQ(labels_of(arm, one, "progress"), (Texts{"1%", "10%"}));
  EXPECT_EQ(labels_of(arm, one, "domain"), (Texts{"law", "art"}));
  EXPECT_EQ(labels_of(arm, one, "set"), (Texts{"test", "ood"}));
  EXPECT_EQ(labels_of(arm, one, "layer"), Texts{});
  const auto other = measuring_stage(verb, {{"data", {{"domains", "tail"}}}, {"on", {{"seen", 1}, {"unseen", 2}}}});
  EXPECT_EQ(axes_of(other, verb.metrics[1]), (Texts{"k", "set"})) << "only `at` makes points of a training";
  EXPECT_EQ(labels_of(arm, other, "domain"), Texts{"tail"});
  EXPECT_EQ(labels_of(arm, other, "set"), (Texts{"seen", "unseen"}));
}

}  // namespace
}  // namespace moiety::host
