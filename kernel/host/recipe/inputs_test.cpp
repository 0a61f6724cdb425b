// What stages read beside the stage before them: stages that parameters name, selections of windows, groups of domains, states on
// the way of a training, and results.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernel/host/plan/identity.h"
#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

using nlohmann::json;
using testing::Loaded;
using testing::small_recipe;

const PlannedStage* named(const Plan& plan, const std::string& name) {
  const auto found = std::find_if(plan.stages.begin(), plan.stages.end(), [&](const auto& one) { return one.name == name; });
  return found == plan.stages.end() ? nullptr : &*found;
}

const char* const kTopics = R"toml(
[stage.topics]
do = "cluster"
clusterer = { use = "k-means", count = 4 }
)toml";

TEST(Inputs, a_parameter_that_names_a_stage_is_an_edge_with_the_slot_as_its_name) {
  const std::string more = R"toml(
[stage.pretrained.sampler]
use = "cluster-importance"
clusters = "topics"
target = { domains = "law", tokens = "20k", fraction = "50%" }
)toml";
  const Loaded loaded(small_recipe() + kTopics + more);
  ASSERT_TRUE(loaded.good()) << loaded.error();
  const Plan plan = loaded.plan();
  const auto* topics = named(plan, "topics");
  const auto* pretrained = named(plan, "pretrained");
  ASSERT_NE(topics, nullptr);
  ASSERT_NE(pretrained, nullptr);
  EXPECT_EQ(pretrained->config.at("sampler"),
            json::parse(R"({"use": "cluster-importance@1", "clusters": "sampler.clusters", "epochs": 0.0, "keep": 0,
                            "target": {"domains": ["law"], "tokens": 20000, "fraction": 0.5}})"))
      << "the name of a stage is no part of an identity";
  ASSERT_EQ(pretrained->inputs.size(), 1U);
  EXPECT_EQ(pretrained->inputs[0].name, "sampler.clusters");
  EXPECT_EQ(pretrained->inputs[0].stage_id, topics->id);
  EXPECT_FALSE(pretrained->model.is_null()) << "it reads no model, so it starts fresh";
  EXPECT_EQ(pretrained->identity_text.at("inputs").at("sampler.clusters"), json::array({topics->id}));
  // Called otherwise, they are the same stages.
  std::string renamed = small_recipe() + kTopics + more;
  for (const auto& [from, to] : {std::pair("stage.topics", "stage.subjects"), {"\"topics\"", "\"subjects\""}})
    renamed.replace(renamed.find(from), std::string(from).size(), to);
  EXPECT_EQ(named(Loaded(renamed).plan(), "pretrained")->id, pretrained->id);
  // What is written out reads itself again.
  const Loaded twice(loaded.recipe().resolved_text);
  ASSERT_TRUE(twice.good()) << twice.error();
  EXPECT_EQ(twice.recipe().resolved_text, loaded.recipe().resolved_text);
}

TEST(Inputs, a_stage_varies_with_the_stages_that_its_parameters_name) {
  const Loaded loaded(small_recipe() + kTopics +
                      "[axes]\ncount = [2, 4]\n[stage.pretrained.sampler]\nuse = 'by-cluster'\nclusters = 'topics'\n"
                      "[arm.swept]\nstage.topics.clusterer.count = '${count}'\n");
  ASSERT_TRUE(loaded.good()) << loaded.error();
  EXPECT_EQ(loaded.recipe().arm("dense")->instances("pretrained").size(), 1U);
  const auto instances = loaded.recipe().arm("swept")->instances("pretrained");
  ASSERT_EQ(instances.size(), 2U);
  EXPECT_EQ(instances[1]->inputs[0].second[0].labels, (AxisLabels{{"count", "4"}}));
  EXPECT_EQ(loaded.recipe().arm("swept")->instances("score").size(), 2U);
}

TEST(Inputs, a_teacher_is_no_start) {
  const Loaded loaded(small_recipe() +
                      "[arm.taught]\nunset = ['stage.tuned.from']\nstage.tuned.teacher = 'pretrained'\n"
                      "stage.tuned.distill = { weight = '30%' }\n");
  ASSERT_TRUE(loaded.good()) << loaded.error();
  const auto* tuned = loaded.recipe().arm("taught")->stage("tuned");
  EXPECT_FALSE(tuned->model.is_null()) << "without `from` it starts fresh";
  EXPECT_EQ(tuned->config.at("distill"), (json{{"weight", 0.3}, {"temperature", 1.0}}));
}

TEST(Inputs, shares_and_sets) {
  const Loaded loaded(small_recipe() +
                      "[stage.pretrained.mixing]\nuse = 'constant'\nweights = { law = 1, en = '2%' }\n"
                      "[arm.sets]\nstage.score.on = { seen = { without = 'law' }, unseen = { domains = 'law' } }\n");
  ASSERT_TRUE(loaded.good()) << loaded.error();
  EXPECT_EQ(loaded.recipe().arm("dense")->stage("pretrained")->config.at("mixing").at("weights"),
            (json{{"en", 0.02}, {"law", 1.0}}));
  const auto* score = loaded.recipe().arm("sets")->stage("score");
  EXPECT_EQ(score->config.at("on"), json::parse(R"({"seen": {"without": ["law"]}, "unseen": {"domains": ["law"]}})"));
  EXPECT_EQ(score->task, "supersense") << "sets of windows, measured as the model was tuned";
}

TEST(Groups, go_to_the_stages_that_name_them_and_into_their_identities) {
  const std::string groups = "[corpus.groups]\ntail = ['law', 'office']\ngeneric = { without = ['law'] }\n";
  const std::string arm = "[arm.tail]\nstage.language.data.domains = ['tail', 'fiction']\n";
  const Loaded loaded(small_recipe() + groups + arm);
  ASSERT_TRUE(loaded.good()) << loaded.error();
  EXPECT_EQ(loaded.recipe().groups, json::parse(R"({"tail": {"of": ["law", "office"]}, "generic": {"without": ["law"]}})"));
  EXPECT_FALSE(loaded.recipe().corpus.contains("groups")) << "the corpus is prepared without them";
  const Plan plan = loaded.plan();
  const auto language = [&](const Plan& of, bool with_groups) {
    const auto found = std::find_if(of.stages.begin(), of.stages.end(),
                                    [&](const auto& one) { return one.name == "language" && one.groups.empty() != with_groups; });
    return found == of.stages.end() ? nullptr : &*found;
  };
  ASSERT_NE(language(plan, true), nullptr);
  EXPECT_EQ(language(plan, true)->identity_text.at("groups"), json::parse(R"({"tail": {"of": ["law", "office"]}})"));
  EXPECT_FALSE(language(plan, false)->identity_text.contains("groups"));
  const Plan before = Loaded(small_recipe()).plan();
  EXPECT_EQ(language(plan, false)->id, language(before, false)->id) << "a group that is not named changes nothing";
  const Loaded twice(loaded.recipe().resolved_text);
  ASSERT_TRUE(twice.good()) << twice.error();
  EXPECT_EQ(twice.recipe().groups, loaded.recipe().groups);
}

TEST(Groups, a_part_of_the_corpus_is_another_text) {
  const auto with = [](const std::string& fraction) {
    return Loaded(testing::small_recipe_with("use = \"debian-8\"", "use = \"debian-8\"\nfraction = " + fraction));
  };
  ASSERT_TRUE(with("'10%'").good()) << with("'10%'").error();
  EXPECT_EQ(with("'10%'").recipe().fraction, 0.1);
  EXPECT_FALSE(with("'10%'").recipe().corpus.contains("fraction"));
  EXPECT_EQ(named(with("'10%'").plan(), "pretrained")->identity_text.at("fraction"), 0.1);
  EXPECT_EQ(named(with("1").plan(), "pretrained")->id, named(Loaded(small_recipe()).plan(), "pretrained")->id);
}

TEST(Snapshots, are_kept_by_the_stage_and_named_by_the_identity_of_the_reader) {
  const Loaded loaded(small_recipe() + R"toml(
[axes]
start = ["10%", "400000 tokens"]
[stage.shifted]
do = "pretrain"
from = "pretrained@${start}"
continues = true
budget = "rest"
[stage.course]
do = "evaluate"
from = "pretrained"
at = ["10.0%", "50%"]
data = { tokens = "1k" }
[arm.shifted]
stage.split.from = "shifted"
)toml");
  ASSERT_TRUE(loaded.good()) << loaded.error();
  const Plan plan = loaded.plan();
  const auto* pretrained = named(plan, "pretrained");
  EXPECT_EQ(pretrained->snapshots, (std::vector<std::string>{"10%", "400k tokens", "50%"}));
  EXPECT_TRUE(pretrained->keep_optimizer) << "shifted goes on from it";
  EXPECT_EQ(pretrained->id, named(Loaded(small_recipe()).plan(), "pretrained")->id) << "who reads it changes no identity";
  const auto* shifted = named(plan, "shifted");
  EXPECT_EQ(shifted->labels, (AxisLabels{{"start", "10%"}}));
  EXPECT_EQ(shifted->inputs[0].snapshot, "10%");
  EXPECT_EQ(shifted->identity_text.at("inputs").at("from"), json::array({pretrained->id + "@10%"}));
  EXPECT_EQ(shifted->config.at("budget"), (json{{"amount", 1}, {"unit", "rest"}}));
  EXPECT_FALSE(shifted->keep_optimizer);
  const auto* course = named(plan, "course");
  ASSERT_EQ(course->inputs.size(), 2U);
  EXPECT_EQ(course->inputs[0].snapshot, "10%");
  EXPECT_EQ(course->inputs[1].snapshot, "50%");
  EXPECT_EQ(course->config.at("at"), json::array({"10%", "50%"}));
}

TEST(Snapshots, a_stage_between_hands_the_optimizer_on) {
  const Loaded loaded(small_recipe() +
                      "[arm.goes-on]\nstage.tuned = { do = 'pretrain', from = 'split', continues = true, budget = "
                      "'rest' }\nstage.score.on = { a = { domains = 'law' } }\n");
  ASSERT_TRUE(loaded.good()) << loaded.error();
  const Plan plan = loaded.plan();
  EXPECT_TRUE(named(plan, "split")->keep_optimizer);
  EXPECT_TRUE(named(plan, "pretrained")->keep_optimizer);
}

const char* const kFound = R"toml(
[stage.peak]
do = "probe"
from = "pretrained"
at = ["10%", "20%"]
probe = { use = "gradient-consistency", of = "law" }
[stage.topics]
do = "cluster"
[define]
experts = "${topics.count}"
[arm.found]
stage.split = { do = "construct", from = "pretrained@${peak.peak}", feed_forward.experts = { use = "copy", count = "${experts}" }, feed_forward.router = { use = "top-k", k = 1 } }
)toml";

TEST(Results, a_stage_waits_and_its_readers_with_it) {
  const Loaded loaded(small_recipe() + kFound);
  ASSERT_TRUE(loaded.good()) << loaded.error();
  const auto* split = loaded.recipe().arm("found")->stage("split");
  ASSERT_EQ(split->results.size(), 2U);
  const Plan plan = loaded.plan();
  ASSERT_EQ(plan.waiting.size(), 4U) << "split, language, tuned, score";
  EXPECT_EQ(plan.waiting[0].name, "split");
  EXPECT_EQ(plan.waiting[0].after, (std::vector<std::string>{"topics", "peak"}));
  EXPECT_EQ(plan.waiting[0].values,
            (std::vector<std::pair<std::string, std::string>>{{"feed_forward.experts.count", "topics"}, {"from", "peak"}}));
  EXPECT_EQ(plan.waiting[1].after, plan.waiting[0].after);
  EXPECT_EQ(plan.runs.size(), 9U);
  // What is written out keeps the references.
  EXPECT_NE(loaded.recipe().resolved_text.find("count = \"${topics.count}\""), std::string::npos)
      << loaded.recipe().resolved_text;
  EXPECT_EQ(Loaded(loaded.recipe().resolved_text).recipe().hash, loaded.recipe().hash);
}

TEST(Results, known_ones_stand_in_the_text_as_if_they_had_been_written) {
  const Loaded loaded(small_recipe() + kFound);
  ASSERT_TRUE(loaded.good()) << loaded.error();
  PlanFacts facts;
  facts.results = [](const std::string&) { return json{{"count", 8.0}, {"peak", json::array({"20%"})}}; };
  const Plan plan =
      build_plan(loaded.recipe(), testing::fixture_catalog(), {"corpus-hash", {{"supersense", "task-hash"}}}, facts);
  EXPECT_TRUE(plan.waiting.empty());
  std::string written = small_recipe() + kFound + "[arm.other]\nstage.tuned.batch = '${topics.count}'\n";
  for (const auto& [from, to] : {std::pair("experts = \"${topics.count}\"", "experts = 8"), {"@${peak.peak}", "@20%"}})
    written.replace(written.find(from), std::string(from).size(), to);
  const Plan same = Loaded(written).plan();
  const auto in = [](const Plan& of, const std::string& name) {
    for (const auto& one : of.run("found", 1)->stages) {
      if (one.name == name) return of.stage(one.id)->identity_text;
    }
    return json();
  };
  EXPECT_EQ(in(plan, "split"), in(same, "split"));
  EXPECT_EQ(in(plan, "score"), in(same, "score"));
  const auto* pretrained = named(plan, "pretrained");
  const auto split =
      std::find_if(plan.stages.begin(), plan.stages.end(), [&](const auto& one) { return !one.results_of.empty(); });
  ASSERT_NE(split, plan.stages.end());
  EXPECT_EQ(split->inputs[0].stage_id, pretrained->id);
  EXPECT_EQ(split->inputs[0].snapshot, "20%");
  EXPECT_EQ(split->config.at("feed_forward").at("experts").at("count"), 8);
  EXPECT_EQ(split->results_of.size(), 2U);
}

TEST(Results, one_that_does_not_fit_is_told) {
  const Loaded loaded(small_recipe() + kFound);
  ASSERT_TRUE(loaded.good()) << loaded.error();
  PlanFacts facts;
  facts.results = [](const std::string&) { return json{{"count", 1.5}, {"peak", 0.5}}; };
  const Plan plan =
      build_plan(loaded.recipe(), testing::fixture_catalog(), {"corpus-hash", {{"supersense", "task-hash"}}}, facts);
  ASSERT_EQ(plan.waiting.size(), 4U);
  EXPECT_EQ(
      plan.waiting[0].problem,
      "`count` in stage.split.feed_forward.experts (expert_constructor/copy@1) must be an integer or a size as \"1.2M\", but "
      "this is a number (${topics.count} is 1.5, ${peak.peak} is 0.5)");
  EXPECT_EQ(plan.waiting[3].problem, "stage.tuned cannot be run");
}

}  // namespace
}  // namespace moiety::host
