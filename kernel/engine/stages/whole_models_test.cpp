// Hard mixtures of whole models (SLM, section 2.6) from end to end on tiny data: windows in clusters, a model for each of them,
// trained together, one of them taken out and tuned on.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernel/engine/model/dense_expert.h"
#include "kernel/engine/model/model_file.h"
#include "kernel/engine/numerics/adamw.h"
#include "kernel/engine/stages/stage.h"
#include "kernel/engine/testing/job_fixture.h"
#include "kernel/engine/testing/tensors.h"

namespace moiety::engine {
namespace {

using nlohmann::json;
using testing::run_here;
using testing::run_stopped_at_every_step;
using testing::TinyStore;

class WholeModels : public ::testing::Test {
 protected:
  WholeModels() {
    EXPECT_EQ(run_here(store.topics("topics")), 0);
    EXPECT_EQ(run_here(separate("separate", "")), 0);
  }
  /// Three models; "" starts fresh.
  json separate(const std::string& name, const std::string& from, const json& experts = {{"use", "copy"}, {"count", 3}}) const {
    return store.whole_models(name, from, "topics", experts);
  }
  json extracted(const std::string& name, const std::string& from, const json& config) const {
    json job = store.evaluate(name, from, config);
    job["verb"] = "extract";
    return job;
  }
  std::unique_ptr<Gpt> model(const std::string& name) const {
    ComponentSet components;
    const auto job = Job::from_json(store.pretrain("unused"));
    for (const auto& component : job->components) EXPECT_TRUE(components.load(component.file));
    const auto file = read_model_file(store.artifact(name));
    auto made = model_from(*file, components);
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(*made);
  }
  TinyStore store;
};

Batch batch_of(const Gpt& model, std::int64_t sequences) {
  Batch batch;
  for (std::int64_t i = 0; i < sequences; ++i) batch.spans.add(model.architecture().context - i % 2);
  batch.tokens = testing::indices({batch.spans.rows()}, model.architecture().vocabulary, 5);
  return batch;
}

ForwardContext told(const std::vector<std::int64_t>& clusters) {
  ForwardContext context;
  context.sequence_cluster = at::tensor(clusters, at::kLong);
  return context;
}

TEST_F(WholeModels, each_sequence_runs_the_model_of_its_label_and_nothing_else) {
  const at::NoGradGuard no_gradient;
  const auto mixture = model("separate");
  const Batch batch = batch_of(*mixture, 5);
  const std::vector<std::int64_t> clusters = {2, 0, 2, 1, 0};
  ForwardContext context = told(clusters);
  const at::Tensor targets = testing::indices({batch.spans.rows()}, mixture->architecture().vocabulary, 6);
  const at::Tensor hidden = mixture->hidden(batch, context);
  const at::Tensor losses = mixture->read_out_losses(hidden, targets, context.expert_of_row);
  const at::Tensor logits = mixture->read_out(hidden, context.expert_of_row);
  for (std::int64_t i = 0; i < batch.spans.count(); ++i) {
    const auto one = dense_expert(*mixture, clusters[static_cast<std::size_t>(i)]);
    ASSERT_TRUE(one);
    const std::int64_t begin = batch.spans.begin(i), length = batch.spans.length(i);
    Batch alone;
    alone.spans.add(length);
    alone.tokens = batch.tokens.narrow(0, begin, length);
    ForwardContext plain;
    const at::Tensor own = (*one)->hidden(alone, plain);
    EXPECT_LT((own - hidden.narrow(0, begin, length)).abs().max().item<double>(), 1e-5) << i;
    EXPECT_LT(((*one)->read_out(own, {}) - logits.narrow(0, begin, length)).abs().max().item<double>(), 1e-5) << i;
    EXPECT_LT(((*one)->read_out_losses(own, targets.narrow(0, begin, length), {}) - losses.narrow(0, begin, length))
                  .abs()
                  .max()
                  .item<double>(),
              1e-5);
  }
  EXPECT_NEAR(mixture->read_out_loss(hidden, targets, context.expert_of_row).item<double>(), losses.mean().item<double>(), 1e-6);
  EXPECT_NEAR(mixture->read_out_loss(hidden, targets, context.expert_of_row, true).item<double>(), losses.mean().item<double>(),
              1e-6)
      << "the form that is differentiated twice";
}

TEST_F(WholeModels, gradients_go_to_the_models_that_ran) {
  const auto mixture = model("separate");
  const Batch batch = batch_of(*mixture, 3);
  ForwardContext context = told({1, 1, 2});
  const at::Tensor targets = testing::indices({batch.spans.rows()}, mixture->architecture().vocabulary, 6);
  mixture->language_loss(batch, targets, context).backward();
  const auto gradient = [&](const Gpt& of, const std::string& name) {
    for (const auto& entry : of.parameters().entries())
      if (entry.name == name) return entry.tensor->grad();
    throw std::out_of_range(name);
  };
  const auto sum = [](const at::Tensor& of) { return of.defined() ? of.abs().sum().item<double>() : 0; };
  EXPECT_EQ(sum(gradient(*mixture, "expert0.embedding.tokens")), 0);
  EXPECT_GT(sum(gradient(*mixture, "expert1.embedding.tokens")), 0);
  // The loss is the mean over all rows: that of the third sequence counts by its share of them.
  auto one = dense_expert(*mixture, 2);
  ASSERT_TRUE(one);
  Batch alone;
  alone.spans.add(batch.spans.length(2));
  alone.tokens = batch.tokens.narrow(0, batch.spans.begin(2), batch.spans.length(2));
  ForwardContext plain;
  (*one)->language_loss(alone, targets.narrow(0, batch.spans.begin(2), batch.spans.length(2)), plain).backward();
  const double share = static_cast<double>(batch.spans.length(2)) / static_cast<double>(batch.spans.rows());
  for (const char* name : {"layer1.feed_forward.in", "final_norm.gain"}) {
    const at::Tensor own = gradient(**one, name) * share, here = gradient(*mixture, std::string("expert2.") + name);
    EXPECT_LT((own - here).abs().max().item<double>(), 1e-6) << name;
  }
}

TEST_F(WholeModels, copies_compute_what_the_model_computes_and_cost_what_is_planned) {
  ASSERT_EQ(run_here(store.pretrain("dense", {{"budget", "4 steps"}})), 0);
  ASSERT_EQ(run_here(separate("copies", "dense")), 0);
  const json plan = testing::planned(separate("again", "dense"))["cost"], made = store.manifest("copies");
  EXPECT_EQ(plan["total_parameters"], made["cost"]["total_parameters"]);
  EXPECT_EQ(plan["active_parameters"], made["cost"]["active_parameters"]);
  EXPECT_EQ(made["cost"]["total_parameters"].get<double>(),
            3 * store.manifest("dense")["cost"]["total_parameters"].get<double>());
  EXPECT_EQ(made["cost"]["active_parameters"], store.manifest("dense")["cost"]["total_parameters"]);
  EXPECT_EQ(made["results"]["clusters"], 3);
  ASSERT_EQ(run_here(extracted("third", "copies", {{"expert", "2"}})), 0);
  EXPECT_EQ(store.digest("third", "model.safetensors"), store.digest("dense", "model.safetensors"));
  const json trained = testing::planned(store.pretrain_from("x", "copies", {{"budget", "3 steps"}}))["cost"];
  ASSERT_EQ(run_here(store.pretrain_from("x", "copies", {{"budget", "3 steps"}})), 0);
  EXPECT_EQ(trained["flops"], store.manifest("x")["cost"]["flops"]) << "a token runs one of them";
}

TEST_F(WholeModels, T42_training_resumes_to_the_same_bits_and_one_is_taken_out_by_training_text) {
  const auto trained = [&](const std::string& name) {
    json job = store.pretrain_from(name, "separate", {{"budget", "6 steps"}, {"dropout", 0.1}});
    job["config"]["micro_batch"] = 2;
    return job;
  };
  ASSERT_EQ(run_here(trained("once")), 0);
  ASSERT_EQ(run_stopped_at_every_step(trained("parts")), 0);
  EXPECT_EQ(store.digest("parts", "model.safetensors"), store.digest("once", "model.safetensors"));
  ASSERT_EQ(run_here(store.evaluate("measured", "once", {{"data", json::object()}})), 0);
  for (const char* rule : {"most-frequent", "lowest-loss"}) {
    ASSERT_EQ(run_here(extracted(rule, "once", {{"expert", rule}, {"data", {{"domains", "domain2"}}}, {"windows", 16}})), 0);
    const auto expert = store.manifest(rule)["results"]["expert"].get<int>();
    EXPECT_TRUE(expert >= 0 && expert < 3) << rule;
    EXPECT_EQ(store.manifest(rule)["sites"], json::array());
  }
  EXPECT_EQ(run_here(store.pretrain_from("tuned", "most-frequent", {{"budget", "2 steps"}})), 0);
}

TEST_F(WholeModels, moments_go_with_the_copies) {
  json dense = store.pretrain("dense", {{"budget", "8 steps"}});
  dense["keep_optimizer"] = true;
  ASSERT_EQ(run_here(dense), 0);
  ASSERT_EQ(run_here(separate("copies", "dense")), 0);
  const auto of_dense = store.tensors("dense", "training.safetensors"),
             of_copies = store.tensors("copies", "training.safetensors");
  const std::string name = "layer0.attention.qkv";
  for (const char* moment : {"first.", "second."})
    EXPECT_TRUE(of_copies.at(moment + ("expert1." + name)).equal(of_dense.at(moment + name))) << moment;
  ASSERT_EQ(run_here(store.pretrain_from("on", "copies", {{"budget", "12 steps"}, {"continues", true}})), 0);
}

TEST_F(WholeModels, what_cannot_be_is_told_before_the_run) {
  const auto problem = [&](json job, const std::string& path) { EXPECT_EQ(testing::first_problem(job), path) << job["config"]; };
  ASSERT_EQ(run_here(store.pretrain("dense", {{"budget", "1 steps"}})), 0);
  problem(separate("x", "dense", {{"use", "split"}, {"count", 4}}), "whole.experts");
  json looks = separate("x", "dense");
  looks["config"]["whole"]["router"] = {{"use", "top-k"}, {"k", 1}};
  problem(looks, "whole.router");
  json both = separate("x", "dense");
  both["config"]["feed_forward"] = both["config"]["whole"];
  problem(both, "whole");
  json other = store.evaluate("x", "separate", json::object());
  other["verb"] = "recompose";
  problem(other, "from");
  problem(store.construct("x", "separate", {{"use", "avg-k"}, {"k", 2}}, {{"use", "split"}, {"count", 4}}), "from");
  problem(store.finetune("x", "separate"), "from");
}

}  // namespace
}  // namespace moiety::engine
