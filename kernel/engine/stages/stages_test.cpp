// Whole stages on tiny data, in this process.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <type_traits>

#include "kernel/base/files.h"
#include "kernel/base/text.h"
#include "kernel/engine/checkpoint/safetensors.h"
#include "kernel/engine/checkpoint/series.h"
#include "kernel/engine/data/corpus.h"
#include "kernel/engine/data/task.h"
#include "kernel/engine/stages/stage.h"
#include "kernel/engine/testing/job_fixture.h"
#include "kernel/engine/worker/run.h"

namespace moiety::engine {
namespace {

using nlohmann::json;
using testing::run_here;
using testing::run_stopped_at_every_step;
using testing::TinyStore;
namespace fs = std::filesystem;

/// The values of a metric in the order of its steps.
std::vector<double> values_of(const TinyStore& store, const std::string& name, const std::string& metric) {
  std::vector<double> values;
  for (const auto& line : split(store.file(name, "series.jsonl"), '\n')) {
    if (line.empty()) continue;
    const auto row = parse_series_line(line);
    if (row && row->name == metric) values.push_back(row->value);
  }
  return values;
}

TEST(Pretrain, learns_and_leaves_what_the_next_stage_needs) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("p", {{"budget", "150 steps"}})), 0);
  const auto m = store.manifest("p");
  EXPECT_EQ(m["stage"], "p");
  EXPECT_LT(m["results"]["valid_loss"].get<double>(), m["results"]["unigram_loss"].get<double>() - 0.7);
  EXPECT_NEAR(m["results"]["perplexity"].get<double>(), std::exp(m["results"]["valid_loss"].get<double>()), 1e-9);
  EXPECT_NEAR(m["results"]["unigram_loss"].get<double>(), std::log(40.0), 0.1);
  EXPECT_EQ(m["cost"]["tokens"], 150 * 4 * 16);
  EXPECT_EQ(values_of(store, "p", "loss").size(), 150U);
  EXPECT_EQ(values_of(store, "p", "valid_loss").size(), 30U);
  EXPECT_EQ(values_of(store, "p", "learning_rate").size(), 150U);
  std::int64_t read = 0;
  for (const auto& [domain, windows] : m["position"].items()) read += windows.get<std::int64_t>();
  EXPECT_EQ(read, 150 * 4);
  EXPECT_FALSE(fs::exists(store.work("p") + "/checkpoint"));
  EXPECT_EQ(m["files"]["model.safetensors"]["bytes"], store.file("p", "model.safetensors").size());
}

TEST(Pretrain, windows_follow_the_sizes_of_the_domains) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("p", {{"budget", "100 steps"}})), 0);
  const auto position = store.manifest("p")["position"];
  const double total = 3000 / 16 + 1500 / 16 + 700 / 16;
  EXPECT_NEAR(position["domain0"].get<double>(), 400 * (3000 / 16) / total, 1);
  EXPECT_NEAR(position["domain2"].get<double>(), 400 * (700 / 16) / total, 1);
}

TEST(Pretrain, budgets_in_every_unit) {
  const TinyStore store;
  const auto tokens = [&](const std::string& name, const char* budget) {
    EXPECT_EQ(run_here(store.pretrain(name, {{"budget", budget}})), 0);
    return store.manifest(name)["cost"]["tokens"].get<double>();
  };
  EXPECT_EQ(tokens("a", "3 steps"), 3 * 64);
  EXPECT_EQ(tokens("b", "130 tokens"), 3 * 64) << "whole steps, rounded up";
  EXPECT_EQ(tokens("c", "12 examples"), 3 * 64);
  EXPECT_EQ(tokens("d", "1 epochs"), 4 * 16 * std::ceil((187 + 93 + 43) / 4.0));
}

TEST(Pretrain, T42_stopped_after_every_step_it_ends_with_the_same_bits) {
  const TinyStore store;
  const json changes = {{"dropout", 0.2}, {"micro_batch", 3}};
  ASSERT_EQ(run_here(store.pretrain("whole", changes)), 0);
  json job = store.pretrain("parts", changes);
  int stops = 0;
  for (;; ++stops) {
    ASSERT_LT(stops, 20);
    const int code = run_here(job, SIGTERM);
    if (code == 0) break;
    ASSERT_EQ(code, 143);
    ASSERT_TRUE(fs::exists(store.work("parts") + "/checkpoint"));
  }
  EXPECT_EQ(stops, 12) << "the last step is followed by a checkpoint, too";
  EXPECT_EQ(store.digest("parts", "model.safetensors"), store.digest("whole", "model.safetensors"));
  EXPECT_EQ(store.file("parts", "series.jsonl"), store.file("whole", "series.jsonl"));
  EXPECT_EQ(store.manifest("parts")["results"], store.manifest("whole")["results"]);
  EXPECT_EQ(store.manifest("parts")["position"], store.manifest("whole")["position"]);
  EXPECT_EQ(store.manifest("parts")["cost"]["flops"], store.manifest("whole")["cost"]["flops"]);
}

TEST(Pretrain, equal_jobs_give_equal_bytes_and_other_seeds_others) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("a")), 0);
  ASSERT_EQ(run_here(store.pretrain("b")), 0);
  json other = store.pretrain("c");
  other["seeds"]["data"] = 99;
  ASSERT_EQ(run_here(other), 0);
  EXPECT_EQ(store.digest("a", "model.safetensors"), store.digest("b", "model.safetensors"));
  EXPECT_NE(store.digest("a", "model.safetensors"), store.digest("c", "model.safetensors"));
}

TEST(Pretrain, children_read_on_where_the_parent_stopped) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("parent", {{"budget", "10 steps"}})), 0);
  ASSERT_EQ(run_here(store.pretrain_from("child", "parent", {{"budget", "10 steps"}})), 0);
  for (const auto& [domain, windows] : store.manifest("child")["position"].items())
    EXPECT_EQ(windows.get<std::int64_t>(), 2 * store.manifest("parent")["position"][domain].get<std::int64_t>());
}

TEST(Training, T09_a_loss_that_is_not_finite_is_diverged_and_recorded) {
  const TinyStore store;
  json job = store.pretrain("p", {{"learning_rate", 1e30}, {"optimizer", {{"clip", 0}}}, {"schedule", {{"warmup", 0}}}});
  EXPECT_EQ(run_here(job), exit_diverged);
  EXPECT_FALSE(fs::exists(store.artifact("p")));
  const auto series = *read_file(store.work("p") + "/series.jsonl");
  EXPECT_TRUE(series.find("\"nan\"") != std::string::npos || series.find("\"inf\"") != std::string::npos) << series;
  EXPECT_FALSE(fs::exists(store.work("p") + "/checkpoint"));
}

TEST(Training, nothing_that_trains_can_open_a_test_split) {
  // By type: there is no way to say "test" to what a training stage gets.
  static_assert(!std::is_invocable_v<decltype(&TrainingCorpus::streams), const TrainingCorpus&, Split>);
  static_assert(!std::is_invocable_v<decltype(&TrainingTask::items), const TrainingTask&, Split>);
  static_assert(!std::is_convertible_v<Split, TrainingSplit>);
  static_assert(!std::is_invocable_v<decltype(&TrainingCorpus::open), const std::string&, Split>);
  // And in fact: without the test files training runs, and measuring on them does not.
  const TinyStore store;
  for (const auto& entry : fs::recursive_directory_iterator(store.path("")))
    if (entry.path().string().find("test.") != std::string::npos || entry.path().string().find(".test") != std::string::npos)
      fs::remove(entry.path());
  EXPECT_EQ(run_here(store.pretrain("p")), 0);
  EXPECT_EQ(run_here(store.finetune("f", "p")), 0);
  EXPECT_EQ(run_here(store.evaluate("e", "p", {{"data", {{"split", "test"}}}})), 3);
  EXPECT_EQ(run_here(store.evaluate("g", "f", {{"on", {"test"}}})), 3);
}

TEST(Construct, split_keeps_what_the_dense_model_computes_when_all_experts_run) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("p")), 0);
  ASSERT_EQ(run_here(store.construct("all", "p", {{"use", "avg-k"}, {"k", 4}})), 0);
  ASSERT_EQ(run_here(store.construct("half", "p", {{"use", "avg-k"}, {"k", 2}})), 0);
  const auto loss = [&](const std::string& name) {
    EXPECT_EQ(run_here(store.evaluate("score-" + name, name, {{"data", {{"tokens", 500}}}})), 0);
    return values_of(store, "score-" + name, "loss");
  };
  const auto dense = loss("p"), all = loss("all"), half = loss("half");
  ASSERT_EQ(dense.size(), 3U);
  for (std::size_t d = 0; d < 3; ++d) {
    EXPECT_NEAR(dense[d], all[d], 1e-5);
    EXPECT_NE(dense[d], half[d]);
  }
  const auto m = store.manifest("half");
  ASSERT_EQ(m["sites"].size(), 2U);
  EXPECT_EQ(m["sites"][1]["experts"], 4);
  EXPECT_EQ(m["sites"][1]["router"]["use"], "avg-k@1");
  EXPECT_EQ(m["sites"][1]["constructor"]["use"], "split@1");
  EXPECT_LT(m["results"]["active_parameters"].get<double>(), m["results"]["total_parameters"].get<double>());
  EXPECT_EQ(store.manifest("all")["results"]["active_parameters"], store.manifest("all")["results"]["total_parameters"]);
}

TEST(Construct, layers_can_be_chosen_and_not_twice) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("p")), 0);
  json job = store.construct("c", "p", {{"use", "avg-k"}, {"k", 2}});
  job["config"]["feed_forward"]["layers"] = json::array({1});
  ASSERT_EQ(run_here(job), 0);
  const auto m = store.manifest("c");
  ASSERT_EQ(m["sites"].size(), 1U);
  EXPECT_EQ(m["sites"][0]["layer"], 1);
  EXPECT_EQ(run_here(store.construct("d", "c", {{"use", "avg-k"}, {"k", 2}})), 1);
  json first = store.construct("e", "c", {{"use", "avg-k"}, {"k", 2}});
  first["config"]["feed_forward"]["layers"] = json::array({0});
  EXPECT_EQ(run_here(first), 0);
  EXPECT_EQ(store.manifest("e")["sites"].size(), 2U);
}

TEST(Finetune, learns_the_task_from_experts_with_either_router) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("p")), 0);
  for (const char* router : {"avg-k", "top-k"}) {
    const std::string name = router;
    ASSERT_EQ(run_here(store.construct("c" + name, "p", {{"use", router}, {"k", 2}})), 0);
    ASSERT_EQ(run_here(store.finetune("f" + name, "c" + name, {{"budget", "12 epochs"}})), 0);
    const auto m = store.manifest("f" + name);
    EXPECT_GT(m["results"]["valid_accuracy"].get<double>(), 0.6) << router;
    EXPECT_EQ(m["sites"].size(), 2U);
    EXPECT_EQ(m["model"]["classes"], 4);
    ASSERT_EQ(run_here(store.evaluate("s" + name, "f" + name, {{"on", {"test", "valid"}}})), 0);
    EXPECT_EQ(values_of(store, "s" + name, "accuracy").size(), 2U);
    const auto items = split(store.file("s" + name, "items.tsv"), '\n');
    ASSERT_EQ(items.size(), 1U + 2 * 80 + 1);
    EXPECT_EQ(items[0], "set\tid\tlabel\tprediction\tcorrect\tloss");
    double correct = 0;
    for (std::size_t i = 1; i <= 80; ++i) correct += split(items[i], '\t').at(4) == "1" ? 1 : 0;
    EXPECT_NEAR(values_of(store, "s" + name, "accuracy")[0], correct / 80, 1e-12);
    ASSERT_EQ(run_here(store.evaluate("few" + name, "f" + name, {{"on", {"test"}}, {"items", 20}})), 0);
    EXPECT_EQ(split(store.file("few" + name, "items.tsv"), '\n').size(), 1U + 20 + 1);
  }
}

TEST(Finetune, from_random_weights_when_there_is_no_model) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.finetune("f", "")), 0);
  EXPECT_EQ(store.manifest("f")["model"]["classes"], 4);
  EXPECT_EQ(values_of(store, "f", "loss").size(), 13U) << "100 examples by 8, the last step smaller";
}

TEST(Finetune, T42_stopped_after_every_step_it_ends_with_the_same_bits) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("p")), 0);
  for (const char* router : {"avg-k", "top-k"}) {
    const std::string name = router;
    ASSERT_EQ(run_here(store.construct("c" + name, "p", {{"use", router}, {"k", 2}})), 0);
    const json changes = {{"dropout", 0.1}, {"validation", {{"every_steps", 4}}}};
    ASSERT_EQ(run_here(store.finetune("whole" + name, "c" + name, changes)), 0);
    const json job = store.finetune("parts" + name, "c" + name, changes);
    ASSERT_EQ(run_stopped_at_every_step(job), 0);
    EXPECT_EQ(store.digest("parts" + name, "model.safetensors"), store.digest("whole" + name, "model.safetensors")) << router;
    EXPECT_EQ(store.digest("parts" + name, "state.safetensors"), store.digest("whole" + name, "state.safetensors")) << router;
    EXPECT_EQ(store.file("parts" + name, "series.jsonl"), store.file("whole" + name, "series.jsonl")) << router;
  }
}

TEST(Finetune, a_smaller_budget_reads_a_prefix_of_the_same_items) {
  // Equal data seeds: the first steps of a longer run see the same items, so with a constant rate their losses are equal.
  const TinyStore store;
  const json constant = {{"schedule", {{"decay", "none"}, {"warmup", 0}}}};
  json shorter = constant, longer = constant;
  shorter["budget"] = "40 examples";
  longer["budget"] = "80 examples";
  ASSERT_EQ(run_here(store.finetune("s", "", shorter)), 0);
  ASSERT_EQ(run_here(store.finetune("l", "", longer)), 0);
  const auto a = values_of(store, "s", "loss"), b = values_of(store, "l", "loss");
  ASSERT_EQ(a.size(), 5U);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i], b[i]);
}

TEST(Finetune, reads_the_first_tokens_of_an_item_and_so_does_whoever_measures_its_model) {
  // Items have 2 to 8 tokens; 100 examples cut at 2 are 200 tokens whichever they are, and a test set of 80 items 160.
  const TinyStore store;
  const auto tokens = [&](const std::string& name) { return store.manifest(name)["cost"]["tokens"].get<double>(); };
  ASSERT_EQ(run_here(store.finetune("f", "", {{"item_tokens", 2}})), 0);
  EXPECT_EQ(store.manifest("f")["model"]["item_tokens"], 2);
  EXPECT_EQ(tokens("f"), 200);
  ASSERT_EQ(run_here(store.evaluate("s", "f", {{"on", {"test"}}})), 0);
  EXPECT_EQ(tokens("s"), 160);
  ASSERT_EQ(run_here(store.finetune("g", "f")), 0);
  EXPECT_GT(tokens("g"), 200) << "a later stage says anew how much it reads";
}

TEST(Evaluate, measures_a_fixed_subset_evenly_over_the_domains) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("p")), 0);
  ASSERT_EQ(run_here(store.evaluate("a", "p", {{"data", {{"split", "test"}, {"tokens", 240}}}})), 0);
  json other_seed = store.evaluate("b", "p", {{"data", {{"split", "test"}, {"tokens", 240}}}});
  other_seed["seeds"] = {{"init", 77}, {"data", 77}};
  ASSERT_EQ(run_here(other_seed), 0);
  EXPECT_EQ(store.file("a", "series.jsonl"), store.file("b", "series.jsonl"));
  EXPECT_EQ(store.manifest("a")["cost"]["tokens"], 240);
  ASSERT_EQ(run_here(store.evaluate("c", "p", {{"data", {{"split", "valid"}, {"domains", {"domain1"}}}}})), 0);
  EXPECT_EQ(values_of(store, "c", "perplexity").size(), 1U);
  EXPECT_EQ(store.manifest("c")["cost"]["tokens"], 24 * 16);
  EXPECT_EQ(run_here(store.evaluate("d", "p", {{"data", {{"domains", {"domian1"}}}}})), 1);
}

TEST(Evaluate, T11_what_was_measured_before_a_failure_is_recorded) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.finetune("f", "")), 0);
  fs::remove(store.task() + "/test.tokens.u16");
  EXPECT_EQ(run_here(store.evaluate("e", "f", {{"on", {"valid", "test"}}})), 3);
  const auto series = *read_file(store.work("e") + "/series.jsonl");
  EXPECT_NE(series.find("accuracy"), std::string::npos);
}

// Generic: a router need not think of it (softmax of the README does not).
TEST(Check, a_router_that_runs_more_experts_than_there_are_is_refused_before_the_run) {
  const TinyStore store;
  const json pretrain = store.pretrain("p"), construct = store.construct("c", "p", {{"use", "top-k"}, {"k", 5}});
  std::string output;
  std::vector<std::string> paths;
  for (const json* job : {&pretrain, &construct}) {
    paths.push_back((*job)["work"].get<std::string>() + "/job.json");
    ASSERT_TRUE(write_file(paths.back(), job->dump()));
  }
  ASSERT_EQ(check_jobs(paths, output), 0);
  EXPECT_NE(output.find("there are 4"), std::string::npos) << output;
}

TEST(Check, tells_cost_and_problems_of_a_chain_that_does_not_exist_yet) {
  const TinyStore store;
  json pretrain = store.pretrain("p"), construct = store.construct("c", "p", {{"use", "avg-k"}, {"k", 2}}),
       tune = store.finetune("f", "c"), score = store.evaluate("e", "f", {{"on", {"test"}}});
  std::vector<std::string> paths;
  for (const json* job : {&pretrain, &construct, &tune, &score}) {
    paths.push_back((*job)["work"].get<std::string>() + "/job.json");
    ASSERT_TRUE(write_file(paths.back(), job->dump()));
  }
  std::string output;
  ASSERT_EQ(check_jobs(paths, output), 0);
  std::vector<json> lines;
  for (const auto& line : split(output, '\n'))
    if (!line.empty()) lines.push_back(json::parse(line));
  ASSERT_EQ(lines.size(), 4U);
  for (const auto& line : lines) EXPECT_TRUE(line["problems"].empty()) << line;
  EXPECT_FALSE(fs::exists(store.artifact("p")));
  // The same before corpus and task are prepared: nothing is wrong with the recipe, only costs are not all known.
  for (const std::string& path : paths) {
    json unprepared = json::parse(*read_file(path));
    unprepared["corpus"] = unprepared["task"] = nullptr;
    ASSERT_TRUE(write_file(path, unprepared.dump()));
  }
  std::string early;
  ASSERT_EQ(check_jobs(paths, early), 0);
  for (const auto& line : split(early, '\n')) EXPECT_TRUE(line.empty() || json::parse(line)["problems"].empty()) << line;
  // What the plan says is what the run costs.
  ASSERT_EQ(run_here(pretrain), 0);
  ASSERT_EQ(run_here(construct), 0);
  ASSERT_EQ(run_here(tune), 0);
  const auto p = store.manifest("p"), c = store.manifest("c"), f = store.manifest("f");
  for (const char* key : {"tokens", "flops", "total_parameters", "active_parameters"})
    EXPECT_EQ(lines[0]["cost"][key], p["cost"][key]) << key;
  for (const char* key : {"total_parameters", "active_parameters"}) {
    EXPECT_EQ(lines[1]["cost"][key], c["cost"][key]) << key;
    EXPECT_EQ(lines[2]["cost"][key], f["cost"][key]) << key;
  }
  EXPECT_NEAR(lines[2]["cost"]["flops"].get<double>() / f["cost"]["flops"].get<double>(), 1, 0.1);

  const auto problem = [](const json& job, const std::string& path) { EXPECT_EQ(testing::first_problem(job), path); };
  problem(store.construct("x1", "p", {{"use", "avg-k"}, {"k", 9}}), "feed_forward.router.k");
  problem(store.construct("x2", "p", {{"use", "avg-q"}, {"k", 2}}), "feed_forward.router");
  problem(store.pretrain("x3", {{"budget", "5 hours"}}), "budget");
  problem(store.pretrain("x4", {{"micro_batch", 99}}), "micro_batch");
  problem(store.pretrain("x5", {{"bacth", 8}}), "bacth");
  problem(store.evaluate("x6", "p", {{"on", {"test"}}}), "on");
  json odd = store.pretrain("x7");
  odd["model"]["heads"] = 3;
  problem(odd, "model");
}

TEST(Describe, every_verb_declares_what_it_reads_and_gives) {
  const auto list = describe_verbs();
  ASSERT_EQ(list.size(), verbs().size());
  for (const auto& verb : list) {
    EXPECT_FALSE(verb["summary"].get<std::string>().empty());
    for (const auto& parameter : verb["parameters"]) EXPECT_FALSE(parameter["doc"].get<std::string>().empty()) << parameter;
  }
  const auto found = std::find_if(list.begin(), list.end(), [](const json& verb) { return verb["name"] == "evaluate"; });
  ASSERT_NE(found, list.end());
  const json evaluate = *found;
  EXPECT_EQ(evaluate["seeds"], json::array());
  EXPECT_EQ(evaluate["metrics"][0]["axes"], json::array({"domain"}));
  EXPECT_EQ(evaluate["metrics"][2]["when"], "on");
}

}  // namespace
}  // namespace moiety::engine
