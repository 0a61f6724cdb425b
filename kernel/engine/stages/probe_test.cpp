// Stages that ask a model, learn from one, or measure several as one.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <map>

#include "kernel/base/text.h"
#include "kernel/engine/checkpoint/series.h"
#include "kernel/engine/stages/distillation.h"
#include "kernel/engine/testing/job_fixture.h"
#include "kernel/engine/testing/tensors.h"

namespace moiety::engine {
namespace {

using nlohmann::json;
using testing::run_here;
using testing::run_stopped_at_every_step;
using testing::TinyStore;

std::vector<registry::MetricRow> rows_of(const TinyStore& store, const std::string& name, const std::string& metric) {
  std::vector<registry::MetricRow> rows;
  for (const auto& line : split(store.file(name, "series.jsonl"), '\n')) {
    if (line.empty()) continue;
    auto row = parse_series_line(line);
    if (row && row->name == metric) rows.push_back(std::move(*row));
  }
  return rows;
}

json also_reads(json job, const std::string& input, const TinyStore& store, const std::string& stage,
                const std::string& point = {}) {
  job["inputs"].push_back({{"name", input}, {"stage", stage}, {"path", store.artifact(stage)}, {"snapshot", point}});
  return job;
}

json probe(const TinyStore& store, const std::string& name, const std::string& from, json config) {
  json job = store.evaluate(name, from, std::move(config));
  job["verb"] = "probe";
  return job;
}

const json consistency = {{"use", "gradient-consistency"}, {"windows", 6}, {"candidates", 40}};

TEST(Probe, asks_a_model_on_selected_text) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("p")), 0);
  const json config = {{"probe", consistency}, {"data", {{"domains", {"domain0", "domain2"}}}}};
  ASSERT_EQ(run_here(probe(store, "a", "p", config)), 0);
  ASSERT_EQ(run_here(probe(store, "b", "p", config)), 0);
  EXPECT_FALSE(rows_of(store, "a", "value").empty());
  EXPECT_EQ(store.file("a", "series.jsonl"), store.file("b", "series.jsonl"));
  EXPECT_GT(store.manifest("a")["cost"]["flops"].get<double>(), 0);
  EXPECT_FALSE(store.manifest("a").contains("model"));
}

TEST(Probe, asks_each_snapshot_and_says_what_it_found_over_all) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("p", {{"budget", "4 steps"}})), 0);
  ASSERT_EQ(run_here(store.pretrain("q", {{"budget", "30 steps"}})), 0);
  json job = probe(store, "a", "p", {{"probe", consistency}, {"at", {"10%", "100%"}}});
  job["inputs"][0]["snapshot"] = "10%";
  job = also_reads(job, "from", store, "q", "100%");
  ASSERT_EQ(run_here(job), 0);
  std::map<std::string, int> seen;
  for (const auto& row : rows_of(store, "a", "value")) ++seen[row.labels.at("progress")];
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen["10%"], seen["100%"]);
  const json peak = store.manifest("a")["results"]["peak"];
  EXPECT_TRUE(peak == json::array({"10%"}) || peak == json::array({"100%"})) << peak;
}

TEST(Probe, a_preconditioned_bracket_needs_the_moments_that_were_kept) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("bare")), 0);
  json kept = store.pretrain("kept");
  kept["keep_optimizer"] = true;
  ASSERT_EQ(run_here(kept), 0);
  const json bracket = {{"use", "lie-bracket"}, {"bracket", "preconditioned"}, {"domain", "domain0"},
                        {"shift", 0.2},         {"length", "4 steps"},         {"batches", 6}};
  EXPECT_EQ(run_here(probe(store, "no", "bare", {{"probe", bracket}})), 1);
  ASSERT_EQ(run_here(probe(store, "yes", "kept", {{"probe", bracket}})), 0);
  EXPECT_FALSE(rows_of(store, "yes", "change").empty());
}

TEST(Evaluate, measures_snapshots_one_by_one_and_models_together) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("p", {{"budget", "40 steps"}})), 0);
  json second = store.pretrain("q", {{"budget", "40 steps"}});
  second["seeds"] = {{"init", 30}, {"data", 40}, {"noise", 50}};
  ASSERT_EQ(run_here(second), 0);
  const auto loss = [&](const json& job, const std::string& name) {
    EXPECT_EQ(run_here(job), 0);
    double sum = 0;
    const auto rows = rows_of(store, name, "loss");
    for (const auto& row : rows) sum += row.value / static_cast<double>(rows.size());
    return sum;
  };
  const json text = {{"data", json::object()}};
  const double p = loss(store.evaluate("ep", "p", text), "ep"), q = loss(store.evaluate("eq", "q", text), "eq"),
               both = loss(also_reads(store.evaluate("both", "p", text), "from", store, "q"), "both"),
               twice = loss(also_reads(store.evaluate("twice", "p", text), "from", store, "p"), "twice");
  EXPECT_LT(both, (p + q) / 2) << "the logarithm is concave";
  EXPECT_NEAR(twice, p, 1e-6);
  EXPECT_NEAR(store.manifest("both")["cost"]["flops"].get<double>(), store.manifest("ep")["cost"]["flops"].get<double>() * 2, 1);

  json each = store.evaluate("each", "p", {{"data", json::object()}, {"at", {"50%", "100%"}}});
  each["inputs"][0]["snapshot"] = "50%";
  ASSERT_EQ(run_here(also_reads(each, "from", store, "q", "100%")), 0);
  const auto rows = rows_of(store, "each", "loss");
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows.front().labels.at("progress"), "50%");
  EXPECT_EQ(rows.front().value, rows_of(store, "ep", "loss").front().value);
  EXPECT_EQ(rows.back().value, rows_of(store, "eq", "loss").back().value);
}

TEST(Evaluate, classifiers_vote_with_their_probabilities) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.finetune("f", "")), 0);
  json second = store.finetune("g", "");
  second["seeds"] = {{"init", 30}, {"data", 40}, {"noise", 50}};
  ASSERT_EQ(run_here(second), 0);
  const json on = {{"on", {"test"}}};
  ASSERT_EQ(run_here(store.evaluate("ef", "f", on)), 0);
  ASSERT_EQ(run_here(store.evaluate("eg", "g", on)), 0);
  ASSERT_EQ(run_here(also_reads(store.evaluate("both", "f", on), "from", store, "g")), 0);
  const auto loss = [&](const std::string& name) { return rows_of(store, name, "loss").front().value; };
  EXPECT_LT(loss("both"), (loss("ef") + loss("eg")) / 2);
  ASSERT_EQ(run_here(store.pretrain("p")), 0);
  EXPECT_EQ(run_here(also_reads(store.evaluate("odd", "f", on), "from", store, "p")), 1) << "it has no classes";
}

TEST(Finetune, T42_on_text_every_window_once_an_epoch_and_the_same_bits_after_every_stop) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("p")), 0);
  const json changes = {{"task", nullptr}, {"data", {{"domains", "domain2"}}}, {"budget", "2 epochs"}, {"micro_batch", 3}};
  ASSERT_EQ(run_here(store.finetune("whole", "p", changes)), 0);
  const json job = store.finetune("parts", "p", changes);
  ASSERT_EQ(run_stopped_at_every_step(job), 0);
  EXPECT_EQ(store.digest("parts", "model.safetensors"), store.digest("whole", "model.safetensors"));
  EXPECT_EQ(store.file("parts", "series.jsonl"), store.file("whole", "series.jsonl"));
  const json made = store.manifest("whole");
  EXPECT_EQ(made["cost"]["tokens"], 2 * 43 * 16) << "the last step is smaller";
  EXPECT_EQ(rows_of(store, "whole", "loss").size(), 11U);
  EXPECT_NEAR(made["results"]["perplexity"].get<double>(), std::exp(made["results"]["valid_loss"].get<double>()), 1e-9);
  EXPECT_FALSE(made["results"].contains("valid_accuracy"));
  EXPECT_EQ(run_here(store.finetune("both", "p", {{"data", {{"domains", "domain2"}}}})), 1) << "a task and text";
}

TEST(Distillation, is_cross_entropy_and_divergence_in_their_shares) {
  const at::Tensor student = testing::normal({5, 7}, 1, at::kDouble), teacher = testing::normal({5, 7}, 2, at::kDouble);
  const at::Tensor targets = testing::indices({5}, 7, 3);
  const double t = 2, weight = 0.3;
  double expected = 0;
  for (std::int64_t r = 0; r < 5; ++r) {
    const at::Tensor p = (teacher[r] / t).softmax(0), q = (student[r] / t).softmax(0);
    for (std::int64_t c = 0; c < 7; ++c)
      expected += weight * t * t * p[c].item<double>() * std::log(p[c].item<double>() / q[c].item<double>()) / 5;
    expected -= (1 - weight) * std::log(student[r].softmax(0)[targets[r].item<std::int64_t>()].item<double>()) / 5;
  }
  EXPECT_NEAR(distilled_loss(student, teacher, targets, {weight, t}).item<double>(), expected, 1e-12);
  EXPECT_NEAR(distilled_loss(student, student, targets, {1, t}).item<double>(), 0, 1e-12);
}

TEST(Finetune, T42_learns_from_a_teacher_on_a_task_and_on_text) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("p", {{"budget", "100 steps"}})), 0);
  ASSERT_EQ(run_here(store.finetune("teacher", "p", {{"budget", "12 epochs"}})), 0);
  const json distill = {{"weight", 1.0}, {"temperature", 2.0}};
  const auto job = [&](const std::string& name, const std::string& budget) {
    return also_reads(store.finetune(name, "p", {{"distill", distill}, {"budget", budget}}), "teacher", store, "teacher");
  };
  ASSERT_EQ(run_here(job("student", "12 epochs")), 0);
  const auto accuracy = [&](const std::string& name) { return store.manifest(name)["results"]["valid_accuracy"].get<double>(); };
  EXPECT_GT(accuracy("teacher"), 0.5);
  EXPECT_NEAR(accuracy("student"), accuracy("teacher"), 0.15) << "no label was seen";
  ASSERT_EQ(run_here(job("whole", "80 examples")), 0);
  const json parts = job("parts", "80 examples");
  ASSERT_EQ(run_stopped_at_every_step(parts), 0);
  EXPECT_EQ(store.digest("parts", "model.safetensors"), store.digest("whole", "model.safetensors"));
  EXPECT_EQ(store.manifest("parts")["cost"]["flops"], store.manifest("whole")["cost"]["flops"]);

  const json text = {{"task", nullptr}, {"data", json::object()}, {"budget", "30 steps"}, {"distill", {{"weight", 1.0}}}};
  ASSERT_EQ(run_here(also_reads(store.finetune("text", "", text), "teacher", store, "p")), 0);
  const auto losses = rows_of(store, "text", "loss");
  EXPECT_LT(losses.back().value, 0.8 * losses.front().value);
  EXPECT_EQ(run_here(also_reads(store.finetune("odd", ""), "teacher", store, "p")), 1) << "a teacher without a head";
}

}  // namespace
}  // namespace moiety::engine
