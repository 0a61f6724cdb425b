// What makes a stage stale, and what does not.
#include "kernel/host/plan/identity.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

using testing::fixture_catalog;
using testing::Loaded;
using testing::small_recipe;
using testing::small_recipe_with;

/// The identity of a stage in one run.
std::string id(const Plan& plan, const std::string& stage, const std::string& arm = "clustered", int seed = 1) {
  const PlannedRun* run = plan.run(arm, seed);
  EXPECT_NE(run, nullptr);
  for (const auto& one : run != nullptr ? run->stages : std::vector<RunStage>{}) {
    if (one.name == stage) return one.id;
  }
  ADD_FAILURE() << arm << " has no stage " << stage;
  return {};
}

Plan plan_of(const std::string& text, const PreparedData& prepared = {"corpus-hash", {{"supersense", "task-hash"}}}) {
  return Loaded(text).plan(prepared);
}

/// The plan of the small recipe with another catalog.
std::string id_with(const Catalog& catalog, const std::string& stage) {
  return id(Loaded(small_recipe(), {}, catalog).plan(), stage);
}

TEST(Identity, a_changed_parameter_or_seed_makes_a_stage_and_its_readers_stale_and_no_other) {
  const Plan before = plan_of(small_recipe());
  const Plan after = plan_of(small_recipe_with("count = 16", "count = 8"));
  EXPECT_EQ(id(before, "pretrained"), id(after, "pretrained"));
  for (const char* stage : {"split", "language", "tuned", "score"}) EXPECT_NE(id(before, stage), id(after, stage)) << stage;
  EXPECT_EQ(id(before, "score", "dense"), id(after, "score", "dense")) << "this arm does not read it";
  EXPECT_NE(id(before, "pretrained"), id(plan_of(small_recipe_with("seed = 1", "seed = 2")), "pretrained"));
  EXPECT_NE(id(before, "tuned", "clustered", 1), id(before, "tuned", "clustered", 2)) << "the run's seed";
  EXPECT_NE(id(before, "tuned"),
            id(plan_of(small_recipe_with("task = \"supersense\"", "task = \"supersense\"\nseed = { data = 9 }")), "tuned"));
}

TEST(Identity, content_of_corpus_and_task_counts_where_it_is_read) {
  const Plan before = plan_of(small_recipe());
  const Plan corpus = plan_of(small_recipe(), {"other", {{"supersense", "task-hash"}}});
  const Plan task = plan_of(small_recipe(), {"corpus-hash", {{"supersense", "other"}}});
  EXPECT_NE(id(before, "pretrained"), id(corpus, "pretrained"));
  EXPECT_EQ(id(before, "pretrained"), id(task, "pretrained"));
  EXPECT_EQ(id(before, "language"), id(task, "language"));
  EXPECT_NE(id(before, "tuned"), id(task, "tuned"));
  EXPECT_NE(id(before, "score"), id(task, "score"));
}

TEST(Identity, without_prepared_content_the_plan_is_provisional) {
  EXPECT_TRUE(plan_of(small_recipe(), {}).provisional);
  EXPECT_TRUE(plan_of(small_recipe(), {"corpus-hash", {}}).provisional);
  EXPECT_FALSE(plan_of(small_recipe()).provisional);
}

TEST(Identity, a_rebuilt_component_makes_its_stages_stale) {
  auto files = testing::probed_json();
  files[2]["build_id"] = "build-clusterers-2";
  const auto catalog = Catalog::from_json(testing::describe_json(), files);
  ASSERT_TRUE(catalog.has_value());
  EXPECT_EQ(id_with(*catalog, "pretrained"), id_with(fixture_catalog(), "pretrained"));
  EXPECT_NE(id_with(*catalog, "split"), id_with(fixture_catalog(), "split"));
}

TEST(Identity, another_torch_or_results_revision_makes_all_stale_another_worker_build_does_not) {
  const auto with = [](const char* key, const nlohmann::json& value) {
    auto describe = testing::describe_json();
    describe["worker"][key] = value;
    return id_with(*Catalog::from_json(describe, testing::probed_json()), "pretrained");
  };
  const std::string before = id_with(fixture_catalog(), "pretrained");
  EXPECT_NE(with("torch_version", "2.6.0"), before);
  EXPECT_NE(with("torch_build_id", "torch-2"), before);
  EXPECT_NE(with("results_revision", 2), before);
  EXPECT_EQ(with("build_id", "worker-2"), before);
  EXPECT_EQ(with("version", "9.9.9"), before);
}

TEST(Identity, threads_count_and_the_model_counts_where_a_stage_starts_fresh) {
  const Plan before = plan_of(small_recipe());
  EXPECT_NE(id(before, "pretrained"), id(plan_of(small_recipe_with("seed = 1", "seed = 1\nthreads = 2")), "pretrained"));
  EXPECT_NE(id(before, "pretrained"), id(plan_of(small_recipe_with("width = 32", "width = 64")), "pretrained"));
}

TEST(Identity, how_a_recipe_is_written_does_not_count) {
  const Plan before = plan_of(small_recipe());
  const auto same = [&](const std::string& line, const std::string& replacement) {
    const Plan after = plan_of(small_recipe_with(line, replacement));
    for (const char* stage : {"pretrained", "split", "language", "tuned", "score"}) {
      EXPECT_EQ(id(before, stage), id(after, stage)) << stage << " after " << replacement;
    }
  };
  same("name = \"small\"", "name = \"other\"\nabout = \"something else\"");
  same("seed = 1", "seed = 1 # pinned");
  same("layers = 2\nwidth = 32", "width = 32\nlayers = 2");
  same("budget = \"15k examples\"", "budget = \"15000 examples\"\nlearning_rate = 1e-3");
  same("budget = \"15k examples\"", "budget = \"15k examples\"\nlearning_rate = 0.001");
  same("\"avg-k\"", "\"avg-k@1\"");
  same("clusterer = \"balanced-kmeans\"", "clusterer = { use = \"balanced-kmeans\", iterations = 20 }");
  same("clustered = {}", "clustered = {}\nthird = { stage.tuned.batch = 1 }");
  same("seeds = 3", "seeds = 4");
  same("on = [\"test\"]", "on = \"test\"");
  same("[claim.better]", "[claim.worse]\nthat = \"accuracy(dense) > 0.5\"\n\n[claim.better]");
}

TEST(Identity, the_name_of_a_stage_does_not_count) {
  std::string renamed = small_recipe();
  for (auto at = renamed.find("pretrained"); at != std::string::npos; at = renamed.find("pretrained", at + 3))
    renamed.replace(at, 10, "foundation");
  const Plan before = plan_of(small_recipe()), after = plan_of(renamed);
  EXPECT_EQ(id(before, "pretrained"), id(after, "foundation"));
  EXPECT_EQ(id(before, "score"), id(after, "score"));
}

TEST(Identity, doc_texts_do_not_count) {
  auto describe = testing::describe_json();
  for (auto& verb : describe["verbs"]) {
    for (auto& parameter : verb["parameters"]) parameter["doc"] = "reworded";
  }
  EXPECT_EQ(id_with(*Catalog::from_json(describe, testing::probed_json()), "score"), id_with(fixture_catalog(), "score"));
}

TEST(Identity, seeds_that_the_verb_does_not_draw_from_do_not_count) {
  const Plan plan = plan_of(small_recipe());
  EXPECT_EQ(id(plan, "language", "dense", 1), id(plan, "language", "dense", 3)) << "one model, one evaluation";
  EXPECT_NE(id(plan, "score", "dense", 1), id(plan, "score", "dense", 3));
}

TEST(Difference, says_what_changed) {
  const auto lines = [](const std::string& line, const std::string& replacement, const std::string& stage) {
    const Plan before = plan_of(small_recipe()), after = plan_of(small_recipe_with(line, replacement));
    return explain_difference(before.stage(id(before, stage))->identity_text, after.stage(id(after, stage))->identity_text);
  };
  using Lines = std::vector<std::string>;
  EXPECT_EQ(lines("layers = 2", "layers = 2", "tuned"), Lines{});
  EXPECT_EQ(lines("budget = \"15k examples\"", "budget = \"15k examples\"\nbatch = 8", "tuned"), (Lines{"batch: 32 → 8"}));
  EXPECT_EQ(lines("seed = 1", "seed = { init = 1, data = 2, noise = 1 }", "pretrained"), (Lines{"seed (data): 1 → 2"}));
  EXPECT_EQ(lines("count = 16", "count = 8", "tuned"), (Lines{"`from` reads another stage, or that stage changed"}));
  const auto router = lines("{ use = \"avg-k\", k = 8 }", "{ use = \"top-k\", k = 8 }", "split");
  EXPECT_NE(std::find(router.begin(), router.end(), "feed_forward.router: router/avg-k@1 → router/top-k@1"), router.end());
}

TEST(Difference, names_a_rebuilt_component) {
  auto files = testing::probed_json();
  files[2]["build_id"] = "new";
  const auto catalog = Catalog::from_json(testing::describe_json(), files);
  const Plan before = plan_of(small_recipe()), after = Loaded(small_recipe(), {}, *catalog).plan();
  EXPECT_EQ(explain_difference(before.stage(id(before, "split"))->identity_text, after.stage(id(after, "split"))->identity_text),
            (std::vector<std::string>{"clusterer/balanced-kmeans@1 was rebuilt (feed_forward.experts.clusterer)"}));
}

}  // namespace
}  // namespace moiety::host
