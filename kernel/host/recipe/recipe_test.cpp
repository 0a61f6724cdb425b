#include "kernel/host/recipe/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

using testing::fixture_catalog;
using testing::Loaded;
using testing::small_recipe;
using testing::small_recipe_with;

TEST(Recipe, the_quickstart_recipe_resolves) {
  const auto recipe = load_recipe(std::string(MOIETY_SOURCE_FOLDER) + "/recipes/quickstart.toml", fixture_catalog(), {});
  ASSERT_TRUE(recipe.has_value()) << recipe.error().message;
  EXPECT_EQ(recipe->seeds, 5);
  EXPECT_EQ(recipe->arms.size(), 5U);
  EXPECT_EQ(recipe->claims.size(), 5U);
  EXPECT_EQ(recipe->tasks, (std::vector<std::string>{"supersense"}));
  EXPECT_TRUE(recipe->needs_corpus);
  EXPECT_EQ(recipe->arm("scratch")->stage("tuned")->model.at("width"), 128) << "starts from a fresh model";
  EXPECT_TRUE(recipe->arm("dense")->stage("tuned")->model.is_null());
}

TEST(Recipe, defaults_sizes_and_components_are_written_out) {
  const Loaded loaded(small_recipe());
  ASSERT_TRUE(loaded.good()) << loaded.error();
  const auto& split = loaded.recipe().arm("clustered")->stage("split")->config;
  EXPECT_EQ(split,
            nlohmann::json::parse(R"({"calibrate": {"windows": 1024, "split": "train", "dimensions": 64}, "rest": "average",
      "feed_forward": {"layers": "all",
      "experts": {"use": "split@1", "count": 16, "points": "keys", "clusterer": {"use": "balanced-kmeans@1", "iterations": 20}},
      "router": {"use": "avg-k@1", "k": 8, "rule": "top", "losses": {"balance": 0.0}}}})"));
  const auto& tuned = loaded.recipe().arm("clustered")->stage("tuned")->config;
  EXPECT_EQ(tuned.at("budget"), (nlohmann::json{{"amount", 15000}, {"unit", "examples"}}));
  EXPECT_EQ(tuned.at("schedule"), (nlohmann::json{{"kind", "cosine"}, {"warmup", 0.05}}));
  EXPECT_FALSE(tuned.contains("patience")) << "optional and absent";
  const auto& components = loaded.recipe().arm("clustered")->stage("split")->components;
  ASSERT_EQ(components.size(), 3U);
  EXPECT_EQ(components[1].slot, "feed_forward.experts.clusterer");
}

TEST(Recipe, tables_of_optional_behaviour_are_absent_unless_written) {
  const Loaded loaded(small_recipe());
  ASSERT_TRUE(loaded.good()) << loaded.error();
  EXPECT_FALSE(loaded.recipe().arm("dense")->stage("score")->config.contains("data"));
  EXPECT_EQ(loaded.recipe().arm("dense")->stage("language")->config.at("data"),
            (nlohmann::json{{"split", "test"}, {"tokens", 64000}}));
}

TEST(Recipe, a_table_may_be_one_of_its_switches_by_name) {
  const auto trained = [](const std::string& written) {
    const Loaded loaded(small_recipe() + "[defaults.finetune]\ntrain = " + written + "\n");
    EXPECT_TRUE(loaded.good()) << loaded.error();
    return loaded.good() ? loaded.recipe().arm("dense")->stage("tuned")->config.at("train") : nlohmann::json();
  };
  EXPECT_EQ(trained("'head'"), (nlohmann::json{{"all", false}, {"head", true}}));
  EXPECT_EQ(trained("{ head = true }"), trained("'head'"));
  EXPECT_EQ(trained("{ lora = { rank = 8 } }"), (nlohmann::json{{"all", false}, {"head", false}, {"lora", {{"rank", 8}}}}));
  const Loaded wrong(small_recipe() + "[defaults.finetune]\ntrain = 'heed'\n");
  EXPECT_NE(wrong.error().find("`train` in stage.tuned (finetune) must be a table or one of all, head"), std::string::npos)
      << wrong.error();
  EXPECT_NE(wrong.error().find("did you mean `head`?"), std::string::npos) << wrong.error();
}

TEST(Recipe, an_evaluation_takes_the_task_of_the_model_it_reads) {
  const Loaded loaded(small_recipe());
  ASSERT_TRUE(loaded.good()) << loaded.error();
  EXPECT_EQ(loaded.recipe().arm("dense")->stage("score")->task, "supersense");
  EXPECT_EQ(loaded.recipe().arm("dense")->stage("language")->task, "");
}

TEST(Recipe, an_arm_runs_its_measuring_stages_and_what_they_read) {
  const Loaded loaded(small_recipe());
  ASSERT_TRUE(loaded.good()) << loaded.error();
  std::vector<std::string> names;
  for (const auto& stage : loaded.recipe().arm("dense")->stages) names.push_back(stage.name);
  EXPECT_EQ(names, (std::vector<std::string>{"pretrained", "language", "tuned", "score"}));
}

TEST(Recipe, arms_extend_arms_and_unset) {
  const Loaded loaded(small_recipe() + "[arm.fresh]\nextends = 'dense'\nunset = ['stage.tuned.from']\nstage.tuned.batch = 8\n");
  ASSERT_TRUE(loaded.good()) << loaded.error();
  const auto* tuned = loaded.recipe().arm("fresh")->stage("tuned");
  EXPECT_TRUE(tuned->inputs.empty());
  EXPECT_EQ(tuned->config.at("batch"), 8);
  EXPECT_EQ(loaded.recipe().arm("fresh")->stage("language")->inputs[0].second[0].stage, "pretrained") << "inherited";
}

TEST(Recipe, an_arm_may_write_a_stage_anew) {
  const Loaded loaded(
      small_recipe() +
      "[defaults.finetune]\nbatch = 4\n[arm.text]\nstage.tuned = { do = 'pretrain', from = 'split', budget = '1k tokens' }\n"
      "stage.score = { do = 'evaluate', from = 'tuned', data.tokens = '1k' }\nunset = ['stage.score.on']\n");
  ASSERT_TRUE(loaded.good()) << loaded.error();
  EXPECT_EQ(loaded.recipe().arm("text")->stage("tuned")->verb->name, "pretrain");
  EXPECT_EQ(loaded.recipe().arm("text")->stage("tuned")->config.at("batch"), 16) << "nothing of the other verb stays";
  EXPECT_EQ(loaded.recipe().arm("dense")->stage("tuned")->config.at("batch"), 4);
}

TEST(Recipe, defaults_lie_under_stages_and_claims) {
  const Loaded loaded(small_recipe() +
                      "[defaults.stage]\nthreads = 2\n[defaults.evaluate]\nthreads = 3\n[defaults.finetune]\nbatch = 5\n"
                      "schedule.warmup = 0.5\n[defaults.claim]\nsource = 's'\n");
  ASSERT_TRUE(loaded.good()) << loaded.error();
  EXPECT_EQ(loaded.recipe().arm("dense")->stage("tuned")->config.at("batch"), 5);
  EXPECT_EQ(loaded.recipe().arm("dense")->stage("tuned")->threads, 2);
  EXPECT_EQ(loaded.recipe().arm("dense")->stage("score")->threads, 3);
  EXPECT_EQ(loaded.recipe().claims[0].source, "s");
}

TEST(Recipe, references_follow_the_order_of_extends_definitions_arm_text) {
  const Loaded loaded(small_recipe() +
                      "[define]\nk = 4\nrouter = { use = 'avg-k', k = '${k}' }\nwhat = 'examples'\n"
                      "[stage.tuned.schedule]\nwarmup = 0.25\n"
                      "[arm.a]\nstage.split.feed_forward.router = '${router}'\nstage.tuned.budget = '20 ${what}'\n"
                      "stage.tuned.batch = '${stage.split.feed_forward.router.k}'\n"
                      "[arm.b]\nextends = 'a'\nstage.split.feed_forward.router.k = 2\n");
  ASSERT_TRUE(loaded.good()) << loaded.error();
  const auto& recipe = loaded.recipe();
  EXPECT_EQ(recipe.arm("a")->stage("split")->config.at("feed_forward").at("router").at("k"), 4);
  EXPECT_EQ(recipe.arm("a")->stage("tuned")->config.at("budget").at("amount"), 20);
  EXPECT_EQ(recipe.arm("a")->stage("tuned")->config.at("batch"), 4);
  EXPECT_EQ(recipe.arm("b")->stage("tuned")->config.at("batch"), 2)
      << "text references see the arm's patch, also inside a definition's table";
}

TEST(Recipe, only_environment_variables_of_moiety_are_read) {
  ::setenv("MOIETY_TEST_BATCH", "24", 1);
  const Loaded good(
      small_recipe_with("budget = \"15k examples\"", "budget = \"15k examples\"\nbatch = \"${env:MOIETY_TEST_BATCH}\""));
  ASSERT_TRUE(good.good()) << good.error();
  EXPECT_EQ(good.recipe().arm("dense")->stage("tuned")->config.at("batch"), 24);
  EXPECT_EQ(good.recipe().resolved_text.find("env:"), std::string::npos) << "the value is recorded";
  const Loaded bad(small_recipe_with("name = \"small\"", "name = \"${env:HOME}\""));
  EXPECT_NE(bad.error().find("only variables MOIETY_"), std::string::npos);
}

TEST(Recipe, T26_an_unknown_key_is_refused_with_line_column_and_suggestion) {
  const Loaded loaded(small_recipe_with("k = 8", "kk = 8"));
  EXPECT_NE(loaded.error().find("recipe.toml:24:40: error: unknown key `kk` in stage.split.feed_forward.router (router/avg-k@1)"),
            std::string::npos)
      << loaded.error();
  EXPECT_NE(loaded.error().find("did you mean `k`?"), std::string::npos);
}

TEST(Recipe, T27_a_key_in_the_wrong_table_is_sent_to_its_table) {
  const Loaded loaded("learning_rate = 1e-3\n" + small_recipe());
  EXPECT_NE(
      loaded.error().find("recipe.toml:1:1: error: `learning_rate` is not a key of the top level; it belongs in [stage.<name>]"),
      std::string::npos)
      << loaded.error();
}

TEST(Recipe, T29_at_most_three_near_names_then_where_to_find_all) {
  auto describe = testing::describe_json();
  for (const char* name : {"batch_a", "batch_b", "batch_c", "batch_d", "batch_e"}) {
    describe["verbs"][2]["parameters"].push_back({{"name", name}, {"type", "integer"}, {"default", 1}, {"doc", ""}});
  }
  const auto catalog = Catalog::from_json(describe, testing::probed_json());
  ASSERT_TRUE(catalog.has_value());
  const Loaded loaded(small_recipe_with("task = \"supersense\"", "task = \"supersense\"\nbatch_x = 3"), {}, *catalog);
  const std::string text = loaded.error();
  const auto line =
      text.substr(text.find("did you mean"), text.find('\n', text.find("did you mean")) - text.find("did you mean"));
  EXPECT_EQ(std::count(line.begin(), line.end(), '`'), 6) << line;
  EXPECT_NE(line.find("all keys: moiety plugins info finetune"), std::string::npos);
}

TEST(Recipe, T30_an_error_in_an_inherited_value_prints_the_chain) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "base.toml", small_recipe_with("heads = 2", "heads = \"two\"")).has_value());
  ASSERT_TRUE(write_file(folder / "middle.toml", "[recipe]\nextends = 'base.toml'\n").has_value());
  ASSERT_TRUE(write_file(folder / "child.toml", "[recipe]\nextends = 'middle.toml'\n").has_value());
  const auto recipe = load_recipe(folder / "child.toml", fixture_catalog(), {});
  ASSERT_FALSE(recipe.has_value());
  const std::string& text = recipe.error().message;
  EXPECT_NE(text.find("base.toml:12:9: error: `heads` in model must be an integer"), std::string::npos) << text;
  EXPECT_NE(
      text.find("  extended by " + (folder / "middle.toml") + ":2:11\n  extended by " + (folder / "child.toml") + ":2:11\n"),
      std::string::npos)
      << text;
}

TEST(Recipe, T33_an_override_is_validated_like_the_file) {
  EXPECT_EQ(Loaded(small_recipe(), {{false, "stage.tuned.batch=64"}}).recipe().arm("dense")->stage("tuned")->config.at("batch"),
            64);
  const Loaded loaded(small_recipe(), {{false, "model.width=64"}, {false, "stage.tuned.batsh=64"}});
  EXPECT_NE(loaded.error().find("command line, 2nd --set: error: unknown key `batsh` in stage.tuned (finetune)"),
            std::string::npos)
      << loaded.error();
}

TEST(Recipe, T35_each_mistake_is_told_once_however_many_arms_and_stages_take_it) {
  const Loaded loaded(small_recipe_with("[stage.pretrained]", "[defaults.evaluate]\nwindow = [1, 2, 3]\n\n[stage.pretrained]"));
  EXPECT_NE(loaded.error().find("\n1 error in 1 file; nothing was run"), std::string::npos) << loaded.error();
}

TEST(Recipe, all_mistakes_come_in_one_go) {
  const Loaded loaded(small_recipe_with("width = 32", "widht = 32") +
                      "[claim.x]\nthat = 'accuracy(dens) > 0.5'\n[stage.more]\ndo = 'evalute'\n");
  for (const char* part : {"unknown key `widht`", "model needs `width`", "unknown arm `dens`", "unknown verb `evalute`"}) {
    EXPECT_NE(loaded.error().find(part), std::string::npos) << part << "\n" << loaded.error();
  }
}

TEST(Recipe, P09_an_unknown_component_lists_near_names_folders_and_files_that_failed) {
  const Loaded loaded(small_recipe_with("use = \"avg-k\"", "use = \"avgk\""));
  for (const char* part : {"unknown router `avgk`", "did you mean `avg-k`?", "searched for plugins: /p, /usr/lib/moiety",
                           "could not be used: /p/broken.moiety.so: built for LibTorch 2.6.0, this is 1.13.1"}) {
    EXPECT_NE(loaded.error().find(part), std::string::npos) << part << "\n" << loaded.error();
  }
}

TEST(Recipe, files_that_failed_are_listed_once_however_many_components_are_unknown) {
  const Loaded loaded(small_recipe_with("use = \"avg-k\"", "use = \"avgk\"") +
                      "[arm.other]\nstage.split.feed_forward.router = 'topk'\n[stage.idle]\ndo = 'construct'\n"
                      "from = 'pretrained'\nfeed_forward.experts = 'splitt'\nfeed_forward.router = 'top-k'\n");
  const auto count = [&](const std::string& part) {
    int n = 0;
    for (auto at = loaded.error().find(part); at != std::string::npos; at = loaded.error().find(part, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("error: unknown "), 3) << loaded.error();
  EXPECT_EQ(count("searched for plugins: "), 1) << loaded.error();
  EXPECT_EQ(count("/p/broken.moiety.so"), 1) << loaded.error();
  EXPECT_EQ(
      count("\nsearched for plugins: /p, /usr/lib/moiety\ncould not be used: /p/broken.moiety.so: built for LibTorch 2.6.0, "
            "this is 1.13.1\n3 errors in 1 file"),
      1)
      << loaded.error();
}

TEST(Recipe, a_stage_that_no_arm_reaches_is_an_error_unless_inherited) {
  const std::string idle = "[stage.idle]\ndo = 'finetune'\ntask = 'supersense'\nbudget = '1 steps'\n";
  EXPECT_NE(Loaded(small_recipe() + idle).error().find("stage.idle is reached by no arm"), std::string::npos);
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "base.toml", small_recipe() + idle).has_value());
  ASSERT_TRUE(write_file(folder / "child.toml", "[recipe]\nextends = 'base.toml'\n").has_value());
  const auto child = load_recipe(folder / "child.toml", fixture_catalog(), {});
  EXPECT_TRUE(child.has_value()) << child.error().message;
}

TEST(Recipe, known_corpora_and_tasks_get_their_versions_and_unknown_ones_are_refused) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "r.toml", small_recipe()).has_value());
  LoadOptions options;
  options.corpora = {{"debian-8", 2}, {"debian-16", 1}};
  options.tasks = {{"supersense", 3}};
  const auto good = load_recipe(folder / "r.toml", fixture_catalog(), options);
  ASSERT_TRUE(good.has_value()) << good.error().message;
  EXPECT_EQ(good->corpus.at("use"), "debian-8@2");
  EXPECT_EQ(good->tasks, (std::vector<std::string>{"supersense@3"}));
  options.corpora = {{"debian-9", 1}};
  options.tasks = {{"supersence", 1}};
  const auto bad = load_recipe(folder / "r.toml", fixture_catalog(), options);
  ASSERT_FALSE(bad.has_value());
  EXPECT_NE(bad.error().message.find("unknown corpus `debian-8`"), std::string::npos);
  EXPECT_NE(bad.error().message.find("unknown task `supersense`"), std::string::npos);
  EXPECT_NE(bad.error().message.find("did you mean `supersence`?"), std::string::npos);
}

TEST(Recipe, limits) {
  EXPECT_EQ(Loaded(small_recipe() + "[limits]\ncall = '5 s'\nmemory = '1 GiB'\n").recipe().limits.call_seconds, 5);
  EXPECT_NE(Loaded(small_recipe() + "[limits]\ncall = 'long'\n").error().find("must be a time"), std::string::npos);
}

TEST(Recipe, a_recipe_without_arms_has_the_arm_main) {
  const Loaded loaded(small_recipe(), {{true, "arm"}, {true, "claim"}, {true, "recipe.baseline"}});
  ASSERT_TRUE(loaded.good()) << loaded.error();
  ASSERT_EQ(loaded.recipe().arms.size(), 1U);
  EXPECT_EQ(loaded.recipe().arms[0].name, "main");
}

}  // namespace
}  // namespace moiety::host
