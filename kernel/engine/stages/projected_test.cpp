// SLM's projected network from end to end on tiny data: windows in clusters, a fresh model whose feed-forwards are combined of a
// bank by the code of a window's cluster, trained with one cluster a micro-batch, one expert of it taken out and tuned on.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "kernel/engine/model/dense_expert.h"
#include "kernel/engine/model/model_file.h"
#include "kernel/engine/stages/stage.h"
#include "kernel/engine/testing/job_fixture.h"
#include "kernel/engine/testing/tensors.h"

namespace moiety::engine {
namespace {

using nlohmann::json;
using testing::run_here;
using testing::run_stopped_at_every_step;
using testing::TinyStore;

struct ProjectedStudy {
  ProjectedStudy() {
    EXPECT_EQ(run_here(store.topics("topics")), 0);
    json job = store.construct("projected", "", {{"use", "label"}, {"clusters", "feed_forward.router.clusters"}},
                               {{"use", "projected"}, {"count", 3}, {"bank", 2}, {"code", 4}});
    job["inputs"].push_back({{"name", "feed_forward.router.clusters"}, {"stage", "topics"}, {"path", store.artifact("topics")}});
    EXPECT_EQ(run_here(job), 0);
  }
  json trained(const std::string& name, const json& changes = {{"budget", "6 steps"}}) const {
    json job = store.pretrain_from(name, "projected", changes);
    job["config"]["sampler"] = {{"use", "by-cluster"}, {"clusters", "sampler.clusters"}};
    job["config"]["micro_batch"] = 2;
    job["inputs"].push_back({{"name", "sampler.clusters"}, {"stage", "topics"}, {"path", store.artifact("topics")}});
    return job;
  }
  json extracted(const std::string& name, const std::string& from, const json& config) const {
    json job = store.evaluate(name, from, config);
    job["verb"] = "extract";
    return job;
  }
  TinyStore store;
};

ComponentSet components_of_job(const json& job) {
  ComponentSet set;
  const auto read = Job::from_json(job);
  for (const auto& component : read->components) EXPECT_TRUE(set.load(component.file));
  return set;
}

TEST(Projected, the_bank_is_shared_the_code_is_one_for_all_layers_and_a_row_costs_what_the_dense_layer_costs) {
  const ProjectedStudy study;
  const auto file = read_model_file(study.store.artifact("projected"));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->tensors.count("all_sites.code"), 1U);
  EXPECT_EQ(file->tensors.at("layer0.feed_forward.bank.in").size(0), 2);
  EXPECT_EQ(file->tensors.count("layer0.feed_forward.in"), 0U);
  json dense = study.store.pretrain("dense", {{"budget", "1 steps"}});
  ASSERT_EQ(run_here(dense), 0);
  const auto plain = read_model_file(study.store.artifact("dense"));
  ASSERT_EQ(run_here(study.trained("short", {{"budget", "1 steps"}})), 0);
  const double trained = study.store.manifest("short")["cost"]["flops"].get<double>(),
               alone = study.store.manifest("dense")["cost"]["flops"].get<double>();
  // Two micro-batches of two windows, two layers; each of two matrices from h = 2 of 16 × 64 numbers and m = 4 of the code.
  EXPECT_DOUBLE_EQ(trained - alone, 3 * 2 * (2 * 2 * 2 * (2 * 2 * (4 + 16 * 64)))) << "matrices are made for each micro-batch";
  EXPECT_EQ(file->manifest["cost"]["active_parameters"].get<double>() - 3 * 4,
            plain->manifest["cost"]["total_parameters"].get<double>())
      << "one expert is a dense model; the codes are what is left";
}

TEST(Projected, T42_an_expert_taken_out_gives_the_same_logits_and_training_resumes_to_the_same_bits) {
  const ProjectedStudy study;
  ASSERT_EQ(run_here(study.trained("whole")), 0);
  const json parts = study.trained("parts");
  ASSERT_EQ(run_stopped_at_every_step(parts), 0);
  EXPECT_EQ(study.store.digest("parts", "model.safetensors"), study.store.digest("whole", "model.safetensors"));
  ASSERT_EQ(run_here(study.extracted("second", "whole", {{"expert", "1"}})), 0);

  const ComponentSet components = components_of_job(study.store.pretrain("unused"));
  const auto file = read_model_file(study.store.artifact("whole")), dense = read_model_file(study.store.artifact("second"));
  ASSERT_TRUE(file && dense);
  auto sites = make_sites(file->manifest, file->architecture, components, file->state);
  ASSERT_TRUE(sites);
  Gpt model(file->architecture, std::move(*sites)), one(dense->architecture, Sites{});
  ASSERT_TRUE(load_tensors(model, file->tensors));
  ASSERT_TRUE(load_tensors(one, dense->tensors));
  EXPECT_EQ(dense->tensors.count("all_sites.code"), 0U);
  const at::NoGradGuard no_gradient;
  Batch batch;
  for (int i = 0; i < 3; ++i) batch.spans.add(file->architecture.context);
  batch.tokens = testing::indices({batch.spans.rows()}, file->architecture.vocabulary, 5);
  ForwardContext told, plain;
  told.sequence_cluster = at::tensor({1, 1, 1}, at::kLong);
  const at::Tensor a = model.hidden(batch, told), b = one.hidden(batch, plain);
  EXPECT_LT((a - b).abs().max().item<double>(), 1e-5);
  told.sequence_cluster = at::tensor({1, 2, 0}, at::kLong);
  const at::Tensor mixed = model.hidden(batch, told);
  const std::int64_t length = file->architecture.context;
  EXPECT_LT((mixed.narrow(0, 0, length) - b.narrow(0, 0, length)).abs().max().item<double>(), 1e-5)
      << "sequences of other clusters change nothing";
  EXPECT_GT((mixed.narrow(0, length, length) - b.narrow(0, length, length)).abs().max().item<double>(), 1e-4);
  ASSERT_EQ(run_here(study.store.pretrain_from("tuned", "second", {{"budget", "2 steps"}})), 0);
}

TEST(Projected, which_expert_is_taken_is_decided_by_training_text) {
  const ProjectedStudy study;
  ASSERT_EQ(run_here(study.trained("trained", {{"budget", "30 steps"}})), 0);
  for (const char* rule : {"most-frequent", "lowest-loss"}) {
    const std::string name = rule;
    ASSERT_EQ(run_here(study.extracted(name, "trained", {{"expert", rule}, {"data", {{"domains", "domain2"}}}, {"windows", 16}})),
              0);
    const json manifest = study.store.manifest(name);
    const auto expert = manifest["results"]["expert"].get<int>();
    EXPECT_TRUE(expert >= 0 && expert < 3) << rule;
    EXPECT_EQ(manifest["sites"], json::array());
  }
  EXPECT_EQ(run_here(study.extracted("none", "trained", {{"expert", "7"}})), 1);
}

}  // namespace
}  // namespace moiety::engine
