// The program `moiety run` against the fake worker: what is run, what is reused, what is refused.
#include "kernel/host/run/run.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "kernel/base/text.h"
#include "kernel/host/run/supervisor.h"
#include "kernel/host/run/testing/sandbox.h"

namespace moiety::host {
namespace {

using testing::Sandbox;
using testing::two_arm_recipe;
namespace fs = std::filesystem;

using testing::has;

const char* const kClaims = R"toml(
[claim.better]
that = "accuracy(high) > accuracy(low)"

[claim.worse]
that = "accuracy(high) < accuracy(low)"
)toml";

TEST(Run, a_recipe_becomes_runs_metrics_and_verdicts) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe("", kClaims));
  const auto ran = box.run_recipe();
  ASSERT_EQ(ran.code, 0) << ran.all();
  EXPECT_EQ(box.calls("run base"), 1) << "a pinned stage runs once";
  EXPECT_EQ(box.calls("run tuned"), 6);
  EXPECT_EQ(box.calls("run score"), 6);
  EXPECT_EQ(box.calls("check 5"), 1) << "stages that differ in seeds are checked once, all in one process";
  EXPECT_EQ(box.sql("SELECT count(*) FROM v_runs WHERE state = 'done'"), "6");
  EXPECT_EQ(box.sql("SELECT count(*) FROM stage WHERE state = 'done'"), "13");
  EXPECT_EQ(box.sql("SELECT count(*) FROM attempt WHERE state = 'done' AND exit_code = 0"), "13");
  EXPECT_EQ(box.sql("SELECT round(mean, 6) FROM v_arms WHERE arm = 'high' AND metric = 'accuracy'"), "0.72");
  EXPECT_EQ(box.sql("SELECT verdict FROM v_claims WHERE claim = 'better' AND statement = ''"), "supported");
  EXPECT_EQ(box.sql("SELECT verdict FROM v_claims WHERE claim = 'worse' AND statement = ''"), "refuted");
  EXPECT_EQ(box.sql("SELECT state FROM study"), "done");
  EXPECT_TRUE(has(ran.output, "0.720 ± 0.010 (3)")) << ran.output;
  EXPECT_TRUE(has(ran.output, "13 stages in ")) << ran.output;
  EXPECT_TRUE(has(ran.output, "\n6 of 6 runs done; 1 of 2 claims supported; refuted: worse\n")) << ran.output;
  EXPECT_TRUE(has(ran.errors, "done: tuned (arm low, seed 3)")) << ran.errors;
  EXPECT_FALSE(has(ran.errors, "\x1b")) << "a pipe gets no escape sequences";
}

TEST(Run, a_second_run_starts_no_worker_and_adds_no_run) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe("", kClaims));
  ASSERT_EQ(box.run_recipe().code, 0);
  box.forget_calls();
  const auto again = box.run_recipe();
  EXPECT_EQ(again.code, 0) << again.all();
  EXPECT_EQ(box.calls(""), 0);
  EXPECT_TRUE(has(again.output, "0 run, 13 found in the store")) << again.output;
  EXPECT_EQ(box.sql("SELECT count(*) FROM run"), "6");
  EXPECT_EQ(box.sql("SELECT count(*) FROM study"), "1");
}

TEST(Run, T14_a_sweep_that_died_goes_on_where_it_was) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe("behave = \"fail@2!once\"\n"));
  const auto first = box.run_recipe();
  ASSERT_EQ(first.code, 1) << first.all();
  EXPECT_EQ(box.sql("SELECT count(*) FROM v_runs WHERE state = 'done'"), "4");
  box.forget_calls();
  const auto second = box.run_recipe();
  ASSERT_EQ(second.code, 0) << second.all();
  EXPECT_EQ(box.calls("run tuned 2"), 2) << "the two that failed";
  EXPECT_EQ(box.calls("run tuned"), 2) << "and no other";
  EXPECT_EQ(box.calls("run score"), 2);
  EXPECT_EQ(box.sql("SELECT count(*) FROM v_runs WHERE state = 'done'"), "6");
  EXPECT_EQ(box.sql("SELECT max(number) FROM attempt"), "2") << "the failed attempts are kept";
}

TEST(Run, T17_asked_for_three_runs_there_are_three_however_often_one_resumes) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe("behave = \"fail@2!once\"\n"));
  ASSERT_EQ(box.run_recipe().code, 1);
  ASSERT_EQ(box.run_recipe().code, 0);
  ASSERT_EQ(box.run_recipe().code, 0);
  EXPECT_EQ(box.sql("SELECT count(*) FROM run WHERE arm = 'low'"), "3");
  EXPECT_EQ(box.sql("SELECT count(*) FROM run WHERE arm = 'high'"), "3");
}

TEST(Run, more_seeds_add_runs_and_reuse_what_is_there) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe());
  ASSERT_EQ(box.run_recipe({"--set", "recipe.seeds=2"}).code, 0);
  box.forget_calls();
  ASSERT_EQ(box.run_recipe().code, 0);
  EXPECT_EQ(box.calls("run tuned 3"), 2);
  EXPECT_EQ(box.calls("run tuned"), 2);
  EXPECT_EQ(box.calls("run base"), 0);
}

TEST(Run, a_fresh_registry_is_filled_from_the_store) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe());
  ASSERT_EQ(box.run_recipe().code, 0);
  const auto tokens = box.sql("SELECT sum(tokens) FROM attempt");
  for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(box.registry() + suffix);
  box.forget_calls();
  const auto again = box.run_recipe();
  ASSERT_EQ(again.code, 0) << again.all();
  EXPECT_EQ(box.calls("run"), 0);
  EXPECT_EQ(box.sql("SELECT count(*) FROM v_runs WHERE state = 'done'"), "6");
  EXPECT_EQ(box.sql("SELECT round(mean, 6) FROM v_arms WHERE arm = 'high' AND metric = 'accuracy'"), "0.72");
  EXPECT_EQ(box.sql("SELECT count(*) FROM artifact"), "26");
  EXPECT_EQ(box.sql("SELECT sum(tokens) FROM attempt"), tokens) << "the cost comes from the manifests";
  EXPECT_EQ(box.sql("SELECT count(*) FROM metric"), "27") << "two losses and a fit of 7 trainings, 6 accuracies";
}

TEST(Run, claims_of_equal_costs_are_refused_before_anything_runs) {
  Sandbox box;
  const std::string claim = "[claim.better]\nthat = \"accuracy(longer) > accuracy(low)\"\nequal = { flops = \"1%\" }\n";
  const std::string more = "\n[stage.again]\ndo = \"train\"\nfrom = \"tuned\"\n[arm.longer]\nstage.score.from = \"again\"\n";
  box.write("recipe.toml", two_arm_recipe("", more + claim));
  for (const auto& ran : {box.run({"plan", "recipe.toml"}), box.run_recipe()}) {
    EXPECT_EQ(ran.code, 2) << ran.all();
    EXPECT_TRUE(has(ran.errors,
                    "claim.better: `equal` asks for equal flops within 1%, and they differ by 33.3%: 3e+09 of "
                    "score(longer), 2e+09 of score(low)"))
        << ran.errors;
  }
  EXPECT_FALSE(fs::exists(box.registry()));
  EXPECT_EQ(box.calls("run"), 0);
  const auto ran = box.run_recipe({"--set", "claim.better.equal.flops=40%"});
  EXPECT_EQ(ran.code, 0) << ran.all();
  box.forget_calls();
  EXPECT_EQ(box.run_recipe({"--set", "claim.better.equal.flops=40%"}).code, 0) << "what is stored counts as well";
  EXPECT_EQ(box.calls("run"), 0);
}

TEST(Run, counts_are_judged_and_what_is_explored_has_no_verdict) {
  Sandbox box;
  box.write("recipe.toml",
            two_arm_recipe("",
                           "\n[claim]\ncount.that = \"flops(high) = flops(low)\"\nlook.explore = \"accuracy(high)\"\n"
                           "memory.that = \"peak_memory(high) <= 1.1 * peak_memory(low)\"\n"));
  const auto planned = box.run({"plan", "recipe.toml"});
  EXPECT_TRUE(has(planned.output, "claim count, decided by counts: supported\n")) << planned.output;
  const auto ran = box.run_recipe();
  ASSERT_EQ(ran.code, 0) << ran.all();
  EXPECT_TRUE(has(ran.output, "2 of 2 claims supported\n")) << ran.output;
  EXPECT_TRUE(has(ran.output, "look: explored\n  accuracy(high)\n")) << ran.output;
  EXPECT_EQ(box.sql("SELECT group_concat(claim || ' ' || verdict || ' ' || adjusted, ', ') FROM v_claims WHERE statement = ''"),
            "count supported supported, look explored , memory supported supported");
}

TEST(Run, threads_of_running_stages_never_exceed_the_cores) {
  Sandbox box;
  const auto cores = std::to_string(available_cores());
  box.write("recipe.toml", two_arm_recipe("threads = " + cores + "\nseconds = 0.1\n"));
  const auto ran = box.run_recipe({"--jobs", "8"});
  ASSERT_EQ(ran.code, 0) << ran.all();
  // A stage that takes all cores runs alone: between its begin and its end no other begins.
  std::string running;
  for (const auto& line : split(*read_file(box.path("calls")), '\n')) {
    if (line.rfind("run ", 0) == 0) {
      EXPECT_EQ(running, "") << line;
      if (line.rfind("run tuned", 0) == 0) running = line.substr(4);
    }
    if (line.rfind("end ", 0) == 0 && line.substr(4) == running) running.clear();
  }
  const auto id = box.sql("SELECT id FROM stage WHERE name = 'tuned' LIMIT 1");
  EXPECT_TRUE(has(*read_file(box.store() + "/work/" + id + "/attempt-1.log"), "OMP_NUM_THREADS=" + cores));
}

TEST(Run, the_pretrainings_loss_stands_beside_a_unigram_models_also_when_reused) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe("", "\n[corpus]\nuse = \"debian-8\"\n"));
  for (int i = 0; i < 2; ++i) {
    const auto ran = box.run_recipe({"--set", "stage.base.do=pretrain"});
    ASSERT_EQ(ran.code, 0) << ran.all();
    EXPECT_TRUE(
        has(ran.output,
            "base (all arms, all seeds): validation loss 5.010 nats a token; a unigram model of the same tokens: 6.420\n"))
        << ran.output;
    EXPECT_TRUE(has(ran.errors, "preparing: nothing to do")) << "moiety-data's progress passes through";
  }
  const auto id = box.sql("SELECT id FROM stage WHERE name = 'base'");
  const auto job = nlohmann::json::parse(*read_file(box.store() + "/work/" + id + "/job.json"));
  EXPECT_EQ(job["corpus"]["path"], "/nowhere/corpus");
  EXPECT_EQ(job["corpus"]["hash"], "corpus-hash");
  EXPECT_EQ(job["registry"], box.registry());
  EXPECT_EQ(job["artifact"], box.store() + "/objects/" + id.substr(0, 2) + "/" + id);
}

TEST(Run, T26_unknown_key_is_refused_and_nothing_is_written) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe("levle = 0.5\n"));
  const auto ran = box.run_recipe();
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.errors, "error: unknown key `levle`")) << ran.errors;
  EXPECT_TRUE(has(ran.errors, "did you mean `level`?")) << ran.errors;
  EXPECT_TRUE(has(ran.errors, "1 error in 1 file; nothing was run\n")) << ran.errors;
  EXPECT_FALSE(fs::exists(box.store()));
  EXPECT_FALSE(fs::exists(box.registry()));
}

TEST(Run, an_impossible_combination_is_refused_at_its_place_before_anything_runs) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe("behave = \"refuse\"\n"));
  const auto ran = box.run_recipe();
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.errors, "recipe.toml:16:10: error: this combination is not possible, in stage.tuned.behave")) << ran.errors;
  EXPECT_TRUE(has(ran.errors, "behave = \"refuse\"\n")) << ran.errors;
  EXPECT_EQ(box.calls("run"), 0);
  EXPECT_FALSE(fs::exists(box.registry()));
}

TEST(Run, what_moiety_data_says_decides_the_exit_code) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe("", "\n[corpus]\nuse = \"debian-8\"\n"));
  for (const auto& [how, code] : {std::pair{"unknown", 2}, std::pair{"unobtainable", 3}}) {
    box.set("FAKE_DATA", how);
    const auto ran = box.run_recipe({"--set", "stage.base.do=pretrain"});
    EXPECT_EQ(ran.code, code) << ran.all();
    EXPECT_EQ(box.calls("run"), 0);
    EXPECT_FALSE(fs::exists(box.registry()));
  }
}

TEST(Run, a_required_claim_decides_the_exit_code) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe("", kClaims));
  const auto unknown = box.run_recipe({"--require", "beter"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(has(unknown.errors, "did you mean `better`?")) << unknown.errors;
  EXPECT_EQ(box.calls("run"), 0);
  EXPECT_EQ(box.run_recipe({"--require", "better"}).code, 0);
  EXPECT_EQ(box.run_recipe({"--require", "better", "--require", "worse"}).code, 1);
}

TEST(Run, P09_an_unknown_component_lists_near_names_folders_and_failed_files) {
  Sandbox box;
  box.write("plugins/routers.moiety.so", "component router top-k 1 k\n");
  box.write("plugins/broken.moiety.so", "error built for LibTorch 2.6.0, this is 1.13.1\n");
  box.write("recipe.toml", two_arm_recipe("router = \"topk\"\n"));
  const auto ran = box.run_recipe();
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.errors, "`topk`")) << ran.errors;
  EXPECT_TRUE(has(ran.errors, "did you mean `top-k`?")) << ran.errors;
  EXPECT_TRUE(has(ran.errors, box.path("plugins"))) << ran.errors;
  EXPECT_TRUE(has(ran.errors, "broken.moiety.so: built for LibTorch 2.6.0, this is 1.13.1")) << ran.errors;
}

TEST(Run, P14_a_worker_is_given_absolute_plugin_paths) {
  Sandbox box;
  box.write("mine/routers.moiety.so", "component router top-k 1 k\n");
  box.write("recipe.toml", two_arm_recipe("router = { use = \"top-k\", k = 3 }\n"));
  const auto ran = box.run_recipe({"--plugin-path", "mine"});
  ASSERT_EQ(ran.code, 0) << ran.all();
  const auto id = box.sql("SELECT id FROM stage WHERE name = 'tuned' LIMIT 1");
  const auto job = nlohmann::json::parse(*read_file(box.store() + "/work/" + id + "/job.json"));
  ASSERT_EQ(job["components"].size(), 1U);
  EXPECT_EQ(job["components"][0]["file"], fs::canonical(box.path("mine")).string() + "/routers.moiety.so");
  EXPECT_EQ(job["components"][0]["slot"], "router");
  EXPECT_EQ(job["config"]["router"]["k"], 3);
}

TEST(Run, without_a_worker_the_way_out_is_named) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe());
  box.set("MOIETY_WORKER", box.path("nothing"));
  const auto ran = box.run_recipe();
  EXPECT_EQ(ran.code, 3);
  EXPECT_TRUE(has(ran.errors, "MOIETY_WORKER names " + box.path("nothing"))) << ran.errors;
}

TEST(Run, quiet_is_quiet) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe());
  const auto ran = box.run_recipe({"--quiet"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_FALSE(has(ran.errors, "start:")) << ran.errors;
  EXPECT_TRUE(has(ran.output, "6 of 6 runs done"));
}

}  // namespace
}  // namespace moiety::host
