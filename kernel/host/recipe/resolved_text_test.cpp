#include "kernel/host/recipe/resolved_text.h"

#include <gtest/gtest.h>

#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

using testing::Loaded;
using testing::small_recipe;

std::vector<std::string> stage_ids(const Plan& plan) {
  std::vector<std::string> ids;
  for (const auto& run : plan.runs) {
    for (const auto& one : run.stages)
      ids.push_back(run.arm + "/" + std::to_string(run.seed) + " " + instance_text(one.name, one.labels) + " " + one.id);
  }
  return ids;
}

void expect_idempotent(const std::string& text) {
  const Loaded once(text);
  ASSERT_TRUE(once.good()) << once.error();
  const Loaded twice(once.recipe().resolved_text);
  ASSERT_TRUE(twice.good()) << twice.error() << once.recipe().resolved_text;
  EXPECT_EQ(twice.recipe().resolved_text, once.recipe().resolved_text);
  EXPECT_EQ(twice.recipe().hash, once.recipe().hash);
  EXPECT_EQ(stage_ids(twice.plan()), stage_ids(once.plan()));
  const Loaded commented(once.recipe().resolved_origins);
  ASSERT_TRUE(commented.good()) << commented.error();
  EXPECT_EQ(commented.recipe().resolved_text, once.recipe().resolved_text);
}

TEST(ResolvedText, resolving_it_again_gives_the_same_text_and_stages) {
  expect_idempotent(small_recipe());
  const auto quickstart = read_file(std::string(MOIETY_SOURCE_FOLDER) + "/recipes/quickstart.toml");
  ASSERT_TRUE(quickstart.has_value());
  expect_idempotent(*quickstart);
}

TEST(ResolvedText, also_with_definitions_defaults_references_and_arms_of_all_kinds) {
  expect_idempotent(
      small_recipe() +
      "[define]\nk = 4\nrouter = { use = 'avg-k', k = '${k}' }\n"
      "[defaults.finetune]\nbatch = 5\n[defaults.stage]\nthreads = 2\n[defaults.claim]\nsource = 's'\n"
      "[stage.pretrained.schedule]\nwarmup = '${stage.tuned.schedule.warmup}'\n[stage.tuned.schedule]\nwarmup = 0.25\n"
      "[arm.a]\nstage.split.feed_forward.router = '${router}'\nstage.tuned.batch = '${stage.split.feed_forward.router.k}'\n"
      "[arm.b]\nextends = 'a'\nstage.split.feed_forward.router.k = 2\nmodel.width = 64\n"
      "[arm.c]\nextends = 'dense'\nunset = ['stage.tuned.from']\nstage.tuned.schedule.warmup = 0.5\nstage.tuned.model.layers = "
      "3\n"
      "[arm.d0]\nstage.split.feed_forward.router = 'top-k'\n[arm.d]\nextends = "
      "'d0'\nstage.split.feed_forward.router.losses.balance = 0.5\n"
      "[arm.e]\nstage.tuned = { do = 'pretrain', from = 'split', budget = '1k tokens', seed = [1, 2], schedule.warmup = 0.1 }\n"
      "stage.score = { data = { domains = 'law' } }\nunset = ['stage.score.on']\n"
      "[arm.f]\nstage.extra = { do = 'finetune', task = 'supersense', budget = '5 steps' }\nstage.score.from = 'extra'\n");
}

TEST(ResolvedText, also_with_choices_and_sizes_of_other_arms) {
  expect_idempotent(testing::small_recipe_with("k = 8", "k = \"${k}\"") +
                    "[axes]\ncount = [8, 16]\nskip = [{ arm = 'wide', count = 16 }]\n"
                    "[choose]\nk = { among = [2, 4], by = 'highest tuned.valid_accuracy' }\n"
                    "[arm.wide]\nextends = 'dense'\nmodel.feed_forward_width = 'total parameters of clustered'\n"
                    "[arm.counted]\nstage.split.feed_forward.experts.count = '${count}'\n");
}

TEST(ResolvedText, arms_and_claims_keep_their_order_everything_else_is_sorted) {
  const Loaded loaded(small_recipe() + "[arm.zz]\n[arm.aa]\n");
  ASSERT_TRUE(loaded.good()) << loaded.error();
  const std::string& text = loaded.recipe().resolved_text;
  EXPECT_LT(text.find("[arm.dense"), text.find("[arm.clustered]"));
  EXPECT_LT(text.find("[arm.zz]"), text.find("[arm.aa]"));
  EXPECT_LT(text.find("[stage.language]"), text.find("[stage.pretrained]"));
}

TEST(ResolvedText, every_leaf_has_an_origin) {
  const Loaded loaded(small_recipe(), {{false, "stage.tuned.batch=7"}});
  ASSERT_TRUE(loaded.good()) << loaded.error();
  const std::string& text = loaded.recipe().resolved_origins;
  EXPECT_NE(text.find("batch         = 7  # command line, 1st --set"), std::string::npos) << text;
  EXPECT_NE(text.find("rule = \"top\"  # default of router/avg-k@1"), std::string::npos);
  EXPECT_NE(text.find("seeds      = 3  # "), std::string::npos);
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; begin = end + 1, end = text.find('\n', begin)) {
    const std::string line = text.substr(begin, end - begin);
    EXPECT_TRUE(line.empty() || line[0] == '[' || line.find("  # ") != std::string::npos) << line;
  }
}

TEST(ResolvedText, the_hash_ignores_how_it_was_written) {
  const auto hash = [](const std::string& text) { return Loaded(text).recipe().hash; };
  const std::string base = hash(small_recipe());
  EXPECT_EQ(hash(testing::small_recipe_with("budget = \"15k examples\"",
                                            "learning_rate = 1e-3 # a comment\nbudget = \"15000 examples\"")),
            base);
  EXPECT_EQ(hash(testing::small_recipe_with("layers = 2\nwidth = 32", "width = 32\nlayers = 2")), base);
  EXPECT_NE(hash(testing::small_recipe_with("layers = 2", "layers = 3")), base);
}

}  // namespace
}  // namespace moiety::host
