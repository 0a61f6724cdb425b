// BAM and BTX from end to end on tiny data: a seed, branches trained on from it, one model with their attentions and
// feed-forwards as experts, trained further.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "kernel/engine/checkpoint/safetensors.h"
#include "kernel/engine/testing/job_fixture.h"

namespace moiety::engine {
namespace {

using nlohmann::json;
using testing::run_here;
using testing::run_stopped_at_every_step;
using testing::TinyStore;

/// A seed and three branches.
struct Branches {
  Branches() {
    EXPECT_EQ(run_here(store.pretrain("seed", {{"budget", "20 steps"}})), 0);
    for (int i = 0; i < 3; ++i) {
      json job = store.pretrain_from("branch" + std::to_string(i), "seed", {{"budget", "8 steps"}, {"learning_rate", 0.005}});
      job["seeds"]["data"] = 10 + i;
      EXPECT_EQ(run_here(job), 0);
    }
  }
  /// `attention`: null for BTX.
  json mixed(const std::string& name, const json& attention, const json& router) const {
    json job = store.construct(name, "seed", router, {{"use", "merge"}});
    for (int i = 0; i < 3; ++i) {
      const std::string branch = "branch" + std::to_string(i);
      job["inputs"].push_back({{"name", "from"}, {"stage", branch}, {"path", store.artifact(branch)}});
    }
    if (!attention.is_null()) job["config"]["attention"] = attention;
    return job;
  }
  std::vector<std::string> sources{"seed", "branch0", "branch1", "branch2"};
  TinyStore store;
};

json attention_table(const char* keys_values, const json& router) {
  return {{"layers", "all"}, {"experts", {{"use", "attention"}, {"keys_values", keys_values}}}, {"router", router}};
}

TEST(SeveralModels, experts_are_the_branches_and_the_rest_is_their_mean) {
  const Branches study;
  for (const char* keys_values : {"own", "shared"}) {
    const std::string name = std::string("bam-") + keys_values;
    ASSERT_EQ(run_here(study.mixed(name, attention_table(keys_values, "soft"), {{"use", "top-k"}, {"k", 1}})), 0);
    const TensorMap made = study.store.tensors(name);
    std::vector<TensorMap> sources;
    for (const auto& source : study.sources) sources.push_back(study.store.tensors(source));
    const auto mean_of = [&](const std::string& tensor) {
      at::Tensor sum = at::zeros(sources[0].at(tensor).sizes(), at::kDouble);
      for (const auto& source : sources) sum += source.at(tensor).to(at::kDouble);
      return (sum / 4).to(at::kFloat);
    };
    EXPECT_TRUE(at::equal(made.at("embedding.tokens"), mean_of("embedding.tokens")));
    EXPECT_TRUE(at::equal(made.at("layer1.attention.norm.gain"), mean_of("layer1.attention.norm.gain")));
    const std::int64_t d = sources[0].at("embedding.tokens").size(1);
    for (std::size_t n = 0; n < 4; ++n) {
      const auto i = static_cast<std::int64_t>(n);
      EXPECT_TRUE(at::equal(made.at("layer0.feed_forward.in")[i], sources[n].at("layer0.feed_forward.in")));
      EXPECT_TRUE(at::equal(made.at("layer1.attention.q")[i], sources[n].at("layer1.attention.qkv").narrow(0, 0, d)));
      EXPECT_TRUE(at::equal(made.at("layer1.attention.o")[i], sources[n].at("layer1.attention.output")));
      if (std::string(keys_values) == "own") {
        EXPECT_TRUE(at::equal(made.at("layer1.attention.k")[i], sources[n].at("layer1.attention.qkv").narrow(0, d, d)));
      }
    }
    if (std::string(keys_values) == "shared") {
      const at::Tensor mean = mean_of("layer1.attention.qkv").narrow(0, d, d);
      EXPECT_LT((made.at("layer1.attention.k")[0] - mean).abs().max().item<double>(), 1e-7);
    }
  }
}

TEST(SeveralModels, rest_first_keeps_the_seed) {
  const Branches study;
  json job = study.mixed("btx", nullptr, {{"use", "top-k"}, {"k", 2}});
  job["config"]["rest"] = "first";
  ASSERT_EQ(run_here(job), 0);
  const TensorMap made = study.store.tensors("btx"), seed = study.store.tensors("seed");
  EXPECT_TRUE(at::equal(made.at("layer0.attention.qkv"), seed.at("layer0.attention.qkv")));
  EXPECT_TRUE(at::equal(made.at("embedding.positions"), seed.at("embedding.positions")));
}

TEST(SeveralModels, T42_soft_and_top_k_attention_resumes_to_the_same_bits) {
  const Branches study;
  const std::vector<std::pair<std::string, json>> attentions{
      {"own-soft", attention_table("own", "soft")},
      {"shared-top", attention_table("shared", {{"use", "top-k"}, {"k", 2}})},
  };
  for (const auto& [name, attention] : attentions) {
    ASSERT_EQ(run_here(study.mixed(name, attention, {{"use", "top-k"}, {"k", 1}, {"losses", {{"balance", 0.01}}}})), 0) << name;
    const json changes = {{"dropout", 0.1}, {"micro_batch", 3}, {"budget", "6 steps"}};
    ASSERT_EQ(run_here(study.store.pretrain_from(name + "-whole", name, changes)), 0) << name;
    const json job = study.store.pretrain_from(name + "-parts", name, changes);
    ASSERT_EQ(run_stopped_at_every_step(job), 0) << name;
    EXPECT_EQ(study.store.digest(name + "-parts", "model.safetensors"), study.store.digest(name + "-whole", "model.safetensors"));
    EXPECT_EQ(study.store.file(name + "-parts", "series.jsonl"), study.store.file(name + "-whole", "series.jsonl"));
    ASSERT_EQ(run_here(study.store.evaluate(name + "-loss", name + "-whole", {{"data", {{"split", "test"}, {"tokens", 160}}}})),
              0);
  }
}

TEST(SeveralModels, models_that_are_not_alike_are_refused) {
  const Branches study;
  json other = study.store.pretrain("other", {{"budget", "2 steps"}});
  other["model"]["layers"] = 1;
  ASSERT_EQ(run_here(other), 0);
  json job = study.mixed("wrong", nullptr, {{"use", "top-k"}, {"k", 1}});
  job["inputs"].push_back({{"name", "from"}, {"stage", "other"}, {"path", study.store.artifact("other")}});
  EXPECT_EQ(run_here(job), 1);
}

}  // namespace
}  // namespace moiety::engine
