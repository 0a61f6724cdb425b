// CSE from end to end on tiny data: a dense model, its feed-forwards copied once a cluster of the training windows, trained on.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "kernel/engine/checkpoint/safetensors.h"
#include "kernel/engine/stages/stage.h"
#include "kernel/engine/testing/job_fixture.h"

namespace moiety::engine {
namespace {

using nlohmann::json;
using testing::run_here;
using testing::run_stopped_at_every_step;
using testing::TinyStore;

struct Study {
  Study() { EXPECT_EQ(run_here(store.pretrain("dense", {{"budget", "60 steps"}})), 0); }
  TinyStore store;
};

TEST(SequenceExperts, clusters_found_at_calibration_are_the_experts_and_nothing_changes_but_the_copies) {
  const Study study;
  ASSERT_EQ(run_here(study.store.cluster_experts("cse", "dense")), 0);
  const json m = study.store.manifest("cse");
  ASSERT_EQ(m["sites"].size(), 2U);
  const TensorMap dense = study.store.tensors("dense"), made = study.store.tensors("cse"),
                  state = study.store.tensors("cse", "state.safetensors");
  for (const auto& site : m["sites"]) {
    const auto experts = site["experts"].get<std::int64_t>();
    const std::string prefix = "layer" + std::to_string(site["layer"].get<int>()) + ".feed_forward.";
    EXPECT_GE(experts, 2);
    EXPECT_LE(experts, 16);
    ASSERT_EQ(made.at(prefix + "in").size(0), experts);
    for (std::int64_t n = 0; n < experts; ++n) EXPECT_TRUE(at::equal(made.at(prefix + "in")[n], dense.at(prefix + "in")));
    const at::Tensor& centres = state.at(prefix + "router.centres");
    EXPECT_EQ(centres.sizes().vec(), (std::vector<std::int64_t>{experts, 8}));
    EXPECT_EQ(site["neurons"], 64);
  }
  EXPECT_NEAR(m["cost"]["tokens"].get<double>(), 96 * 16, 3 * 16) << "whole windows, in proportion to the domains";
  // One of several equal copies with weight 1 is the dense layer.
  for (const char* name : {"dense", "cse"})
    ASSERT_EQ(run_here(study.store.evaluate(std::string("loss-") + name, name, {{"data", {{"split", "test"}, {"tokens", 320}}}})),
              0);
  const auto losses = [&](const std::string& name) { return study.store.file("loss-" + name, "series.jsonl"); };
  EXPECT_FALSE(losses("cse").empty());
  const json a = study.store.manifest("loss-dense"), b = study.store.manifest("loss-cse");
  EXPECT_NEAR(b["cost"]["flops"].get<double>() / a["cost"]["flops"].get<double>(), 1, 0.02)
      << "a row runs one copy, and routing is done once a sequence";
  EXPECT_GT(b["cost"]["total_parameters"].get<double>(), 1.5 * a["cost"]["total_parameters"].get<double>());
}

TEST(SequenceExperts, training_moves_centres_and_measuring_does_not) {
  const Study study;
  ASSERT_EQ(run_here(study.store.cluster_experts("cse", "dense")), 0);
  ASSERT_EQ(run_here(study.store.pretrain_from("trained", "cse", {{"budget", "20 steps"}})), 0);
  const std::string centres = "layer1.feed_forward.router.centres";
  const at::Tensor before = study.store.tensors("cse", "state.safetensors").at(centres),
                   after = study.store.tensors("trained", "state.safetensors").at(centres);
  EXPECT_FALSE(at::equal(before, after));
  ASSERT_EQ(run_here(study.store.cluster_experts("still", "dense", {{"momentum", 1.0}})), 0);
  ASSERT_EQ(run_here(study.store.pretrain_from("rested", "still", {{"budget", "20 steps"}})), 0);
  EXPECT_TRUE(at::equal(study.store.tensors("still", "state.safetensors").at(centres),
                        study.store.tensors("rested", "state.safetensors").at(centres)))
      << "momentum 1: validation and training leave centres alone";
}

TEST(SequenceExperts, T42_stopped_after_every_step_it_ends_with_the_same_bits_and_centres) {
  const Study study;
  ASSERT_EQ(run_here(study.store.cluster_experts("cse", "dense")), 0);
  const json changes = {{"dropout", 0.2}, {"micro_batch", 3}};
  ASSERT_EQ(run_here(study.store.pretrain_from("whole", "cse", changes)), 0);
  const json job = study.store.pretrain_from("parts", "cse", changes);
  ASSERT_EQ(run_stopped_at_every_step(job), 0);
  for (const char* file : {"model.safetensors", "state.safetensors"})
    EXPECT_EQ(study.store.digest("parts", file), study.store.digest("whole", file)) << file;
  EXPECT_EQ(study.store.file("parts", "series.jsonl"), study.store.file("whole", "series.jsonl"));
}

TEST(SequenceExperts, calibration_may_look_at_validation_text) {
  const Study study;
  ASSERT_EQ(run_here(study.store.cluster_experts("train", "dense")), 0);
  json job = study.store.cluster_experts("valid", "dense");
  job["config"]["calibrate"]["split"] = "valid";
  ASSERT_EQ(run_here(job), 0);
  const auto seen = [&](const char* name) { return study.store.manifest(name)["cost"]["tokens"].get<double>(); };
  EXPECT_GT(seen("valid"), 0);
  EXPECT_LT(seen("valid"), seen("train")) << "there is less of it";
}

TEST(SequenceExperts, items_of_different_lengths_are_sequences_too) {
  const Study study;
  ASSERT_EQ(run_here(study.store.cluster_experts("cse", "dense", {{"view", "prefix"}, {"prefix", 4}})), 0);
  ASSERT_EQ(run_here(study.store.finetune("tuned", "cse", {{"budget", "12 epochs"}})), 0);
  EXPECT_GT(study.store.manifest("tuned")["results"]["valid_accuracy"].get<double>(), 0.5);
  ASSERT_EQ(run_here(study.store.evaluate("score", "tuned", {{"on", {"test"}}})), 0);
}

TEST(SequenceExperts, who_says_the_number_of_experts_is_checked_before_the_run) {
  const Study study;
  json both = study.store.cluster_experts("both", "dense");
  both["config"]["feed_forward"]["experts"]["count"] = 4;
  EXPECT_EQ(run_here(both), 1);
  json nobody = study.store.construct("nobody", "dense", {{"use", "avg-k"}, {"k", 1}}, {{"use", "copy"}});
  EXPECT_EQ(run_here(nobody), 1);
  json split = study.store.construct("split", "dense", {{"use", "nearest-centre"}});
  EXPECT_EQ(run_here(split), 1);
}

}  // namespace
}  // namespace moiety::engine
