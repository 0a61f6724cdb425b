// Axes: where they apply, what stands how often, what is read at which label.
#include "kernel/host/recipe/axes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

using testing::Loaded;
using testing::small_recipe;
using testing::small_recipe_with;

std::vector<std::string> stages_of(const Loaded& loaded, const std::string& arm) {
  std::vector<std::string> names;
  EXPECT_TRUE(loaded.good()) << loaded.error();
  if (!loaded.good()) return names;
  for (const auto& stage : loaded.recipe().arm(arm)->stages) names.push_back(instance_text(stage.name, stage.labels));
  return names;
}

const RecipeStage* at(const Loaded& loaded, const std::string& arm, const std::string& stage, const AxisLabels& labels) {
  for (const auto* one : loaded.recipe().arm(arm)->instances(stage)) {
    if (one->labels == labels) return one;
  }
  ADD_FAILURE() << arm << " has no " << instance_text(stage, labels);
  return nullptr;
}

/// k varies in the arm that splits; nothing else of the recipe mentions it.
std::string with_k(const std::string& axis = "[2, 4, 8]") {
  return small_recipe_with("k = 8", "k = \"${k}\"") + "at = { k = 4 }\n[axes]\nk = " + axis + "\n";
}

TEST(Axes, a_stage_varies_along_an_axis_when_its_text_mentions_it_or_when_it_reads_a_stage_that_does) {
  const Loaded loaded(with_k("[2, 4]"));
  EXPECT_EQ(stages_of(loaded, "dense"), (std::vector<std::string>{"pretrained", "language", "tuned", "score"}));
  EXPECT_EQ(stages_of(loaded, "clustered"),
            (std::vector<std::string>{"pretrained", "split [k=2]", "language [k=2]", "split [k=4]", "language [k=4]",
                                      "tuned [k=2]", "score [k=2]", "tuned [k=4]", "score [k=4]"}));
  const auto* split = at(loaded, "clustered", "split", {{"k", "4"}});
  EXPECT_EQ(split->config.at("feed_forward").at("router").at("k"), 4) << "a reference that is the whole text keeps its type";
  EXPECT_EQ(at(loaded, "clustered", "tuned", {{"k", "2"}})->inputs[0].second[0].labels, (AxisLabels{{"k", "2"}}));
}

TEST(Axes, a_run_has_a_stage_once_for_each_label_and_equal_stages_are_one) {
  const Plan plan = Loaded(with_k()).plan();
  EXPECT_EQ(plan.runs.size(), 6U);
  const auto count = [&](const std::string& name) {
    return std::count_if(plan.stages.begin(), plan.stages.end(), [&](const auto& stage) { return stage.name == name; });
  };
  EXPECT_EQ(count("pretrained"), 1);
  EXPECT_EQ(count("split"), 9);
  EXPECT_EQ(count("tuned"), 12);
  EXPECT_EQ(plan.axes.names(), (std::vector<std::string>{"k"}));
  std::vector<std::string> scores;
  for (const auto& stage : plan.run("clustered", 2)->stages) {
    if (stage.name == "score") scores.push_back(stage.labels.at("k"));
  }
  EXPECT_EQ(scores, (std::vector<std::string>{"2", "4", "8"}));
  const Plan fixed = Loaded(small_recipe()).plan();
  const auto known = [&](const std::string& id) { return fixed.stage(id) != nullptr; };
  EXPECT_EQ(std::count_if(plan.stages.begin(), plan.stages.end(), [&](const auto& one) { return known(one.id); }),
            static_cast<std::ptrdiff_t>(fixed.stages.size()))
      << "a label does not count in an identity: k = 8 is the stage that it is without an axis";
}

TEST(Axes, ranges_tables_with_label_and_components_by_use) {
  const Loaded range(with_k("\"3..5\""));
  EXPECT_EQ(stages_of(range, "clustered").size(), 13U);
  const std::string size = "[{ label = \"small\", width = 32, batch = 8 }, { label = \"large\", width = 64, batch = 4 }]";
  const Loaded tables(small_recipe_with("width = 32", "width = \"${size.width}\"") +
                      "at.size = \"large\"\n[stage.tuned.schedule]\nwarmup = 0.5\n[axes]\nsize = " + size +
                      "\n[defaults.finetune]\nbatch = \"${size.batch}\"\n");
  ASSERT_TRUE(tables.good()) << tables.error();
  EXPECT_EQ(at(tables, "dense", "pretrained", {{"size", "large"}})->model.at("width"), 64);
  EXPECT_EQ(at(tables, "dense", "tuned", {{"size", "large"}})->config.at("batch"), 4);
  const Loaded components(small_recipe_with("\"balanced-kmeans\"", "\"${grouping}\"") +
                          "at.grouping = \"random\"\n[axes]\ngrouping = [\"random\", { use = \"balanced-kmeans\", iterations = 5 "
                          "}, { label = \"long\", use = "
                          "\"balanced-kmeans\", iterations = 50 }]\n");
  ASSERT_TRUE(components.good()) << components.error();
  const auto clusterer = [&](const std::string& label) {
    return at(components, "clustered", "split", {{"grouping", label}})->config.at("feed_forward").at("experts").at("clusterer");
  };
  EXPECT_EQ(clusterer("random").at("use"), "random@1");
  EXPECT_EQ(clusterer("balanced-kmeans").at("iterations"), 5);
  EXPECT_EQ(clusterer("long").at("iterations"), 50);
}

TEST(Axes, skip_leaves_combinations_out_of_what_varies_along_them) {
  const std::string two = small_recipe_with("count = 16", "count = \"${count}\"");
  std::string text = two;
  text.replace(text.find("k = 8"), 5, "k = \"${k}\"");
  const Loaded loaded(text + "at = { k = 2, count = 4 }\n[arm.other]\n[axes]\nk = [2, 4]\ncount = [4, 16]\n" +
                      "skip = [{ k = 4, count = 4 }, { arm = \"other\", k = 4 }]\n");
  const auto count = [&](const std::string& arm) { return loaded.recipe().arm(arm)->instances("split").size(); };
  ASSERT_TRUE(loaded.good()) << loaded.error();
  EXPECT_EQ(count("clustered"), 3U);
  EXPECT_EQ(count("other"), 2U);
}

TEST(Axes, a_read_selects_one_label_or_all_of_them) {
  const std::string branches =
      "[stage.branch]\ndo = 'pretrain'\nfrom = 'pretrained'\nbudget = '1k tokens'\nbatch = '${size}'\n[axes]\nsize = [3, 1, 2]\n"
      "[arm.all]\nstage.split.from = ['pretrained', 'branch(size=*)']\n[arm.one]\nstage.split.from = 'branch(size=2)'\n"
      "[arm.each]\nstage.split.from = 'branch'\n";
  const Loaded loaded(small_recipe() + branches);
  ASSERT_TRUE(loaded.good()) << loaded.error();
  const auto* all = loaded.recipe().arm("all")->stage("split");
  ASSERT_EQ(all->inputs[0].second.size(), 4U);
  EXPECT_EQ(all->inputs[0].second[1].labels.at("size"), "3") << "in the order written";
  EXPECT_TRUE(all->labels.empty());
  EXPECT_EQ(loaded.recipe().arm("one")->instances("branch").size(), 1U);
  EXPECT_EQ(loaded.recipe().arm("each")->instances("score").size(), 3U);
  const Plan plan = loaded.plan();
  for (const auto& stage : plan.run("all", 1)->stages) {
    EXPECT_EQ(plan.stage(stage.id)->inputs.size(), stage.name == "split" ? 4U : stage.name == "pretrained" ? 0U : 1U);
  }
}

TEST(Axes, the_resolved_text_keeps_axes_and_what_mentions_them) {
  const Loaded once(with_k());
  ASSERT_TRUE(once.good()) << once.error();
  const Loaded twice(once.recipe().resolved_text);
  ASSERT_TRUE(twice.good()) << twice.error() << once.recipe().resolved_text;
  EXPECT_EQ(twice.recipe().resolved_text, once.recipe().resolved_text);
  EXPECT_EQ(twice.recipe().hash, once.recipe().hash);
  EXPECT_NE(once.recipe().resolved_text.find("\"${k}\""), std::string::npos) << once.recipe().resolved_text;
  EXPECT_EQ(twice.plan().stages.size(), once.plan().stages.size());
}

TEST(Recipe, a_stage_that_changes_a_tuned_model_hands_its_task_on) {
  const Loaded loaded(small_recipe() +
                      "[arm.after]\nstage.tuned.from = 'pretrained'\nstage.split.from = 'tuned'\nstage.score.from = 'split'\n");
  ASSERT_TRUE(loaded.good()) << loaded.error();
  EXPECT_EQ(loaded.recipe().arm("after")->stage("score")->task, "supersense");
  EXPECT_EQ(loaded.recipe().arm("after")->stage("split")->task, "") << "its outcome does not depend on the items";
}

TEST(Axes, labels_are_equal_in_any_form_of_their_number) {
  EXPECT_EQ(canonical_label("0.0"), canonical_label("0"));
  EXPECT_EQ(canonical_label("1e-3"), canonical_label("0.001"));
  EXPECT_EQ(canonical_label("4k"), "4k");
  EXPECT_EQ(canonical_label("24x4"), "24x4");
}

TEST(Axes, an_inherited_skip_may_speak_of_what_is_gone) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "base.toml", with_k() + "skip = { arm = 'clustered', k = [2, 8] }\n").has_value());
  ASSERT_TRUE(write_file(folder / "child.toml",
                         "[recipe]\nextends = 'base.toml'\nunset = ['arm', 'claim', 'recipe.baseline']\n[arm.mine]\n")
                  .has_value());
  const auto child = load_recipe(folder / "child.toml", testing::fixture_catalog(), {});
  ASSERT_TRUE(child.has_value()) << child.error().message;
  EXPECT_EQ(child->arm("mine")->instances("split").size(), 3U);
}

}  // namespace
}  // namespace moiety::host
