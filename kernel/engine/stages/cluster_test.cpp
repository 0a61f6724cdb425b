// Clusterings of text, and samplers and routers that read them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <set>

#include "kernel/base/files.h"
#include "kernel/engine/stages/cluster_labels.h"
#include "kernel/engine/stages/stage.h"
#include "kernel/engine/testing/job_fixture.h"
#include "kernel/engine/worker/job.h"
#include "moiety/clusterer.h"

namespace moiety::engine {
namespace {

using nlohmann::json;
using testing::run_here;
using testing::run_stopped_at_every_step;
using testing::TinyStore;

const json k_means = {{"use", "k-means"}, {"count", 3}};

json cluster(const TinyStore& store, const std::string& name, const json& changes, const std::string& from = {}) {
  json config = {{"clusterer", k_means}, {"window", 16}, {"features", {{"dimensions", 8}}}};
  config.merge_patch(changes);
  if (changes.contains("clusterer")) config["clusterer"] = changes["clusterer"];
  json job = store.evaluate(name, from, config);
  job["verb"] = "cluster";
  if (from.empty()) job["model"] = nullptr;
  return job;
}

json reads(json job, const std::string& input, const std::string& path) {
  job["inputs"].push_back({{"name", input}, {"stage", input}, {"path", path}});
  return job;
}

ComponentSet components_of(const json& job) {
  ComponentSet set;
  const auto read = Job::from_json(job);
  for (const auto& component : read->components) EXPECT_TRUE(set.load(component.file));
  return set;
}

struct Labels {
  Labels(const TinyStore& store, const std::string& name, bool training)
      : corpus(*EvaluationCorpus::open(store.corpus(), Split::train)) {
    components = components_of(store.pretrain("unused"));
    clusters = *ClusterLabels::open(store.artifact(name), components);
    std::vector<std::int64_t> counts;
    for (std::int64_t d = 0; d < 3; ++d) counts.push_back(corpus.streams().windows(d, 16));
    of_windows = clusters->of(corpus.streams(), corpus.facts().domains, 16, counts, training);
  }
  EvaluationCorpus corpus;
  ComponentSet components;
  std::unique_ptr<ClusterLabels> clusters;
  std::vector<std::vector<std::int64_t>> of_windows;
};

TEST(Cluster, T42_divides_windows_by_their_words_the_same_way_every_time) {
  const TinyStore store;
  ASSERT_EQ(run_here(cluster(store, "c", json::object())), 0);
  ASSERT_EQ(run_here(cluster(store, "again", json::object())), 0);
  const json made = store.manifest("c");
  EXPECT_EQ(made["results"]["count"], 3);
  std::int64_t all = 0;
  for (const auto& [cluster, size] : made["results"]["sizes"].items()) all += size.get<std::int64_t>();
  EXPECT_EQ(all, 187 + 93 + 43);
  EXPECT_EQ(store.digest("c", "clusters.safetensors"), store.digest("again", "clusters.safetensors"));
  json other = cluster(store, "other", json::object());
  other["seeds"]["cluster"] = 60;
  ASSERT_EQ(run_here(other), 0);
  EXPECT_NE(store.digest("c", "clusters.safetensors"), store.digest("other", "clusters.safetensors"));

  // The windows that were divided keep their cluster; k-means assigns them to it, too.
  const Labels kept(store, "c", true), assigned(store, "c", false);
  EXPECT_EQ(kept.of_windows, assigned.of_windows);
  EXPECT_EQ(kept.of_windows[0].size(), 187U);
  std::vector<std::int64_t> sizes(3);
  for (const auto& domain : kept.of_windows)
    for (const std::int64_t label : domain) ++sizes.at(static_cast<std::size_t>(label));
  for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(made["results"]["sizes"][std::to_string(c)], sizes[c]);
}

TEST(Cluster, windows_that_were_not_divided_are_assigned) {
  const TinyStore store;
  ASSERT_EQ(
      run_here(cluster(
          store, "c",
          {{"data", {{"domains", "domain1"}, {"tokens", 800}}}, {"clusterer", {{"use", "balanced-kmeans"}}}, {"count", 4}})),
      0);
  const Labels labels(store, "c", true), assigned(store, "c", false);
  EXPECT_EQ(labels.clusters->clustering().count(), 4);
  for (const std::size_t other : {0U, 2U}) {
    EXPECT_EQ(labels.of_windows[other], assigned.of_windows[other]);
    for (const std::int64_t label : labels.of_windows[other]) EXPECT_TRUE(label >= 0 && label < 4);
  }
  std::vector<std::int64_t> sizes(4);
  for (std::size_t i = 0; i < 50; ++i) ++sizes.at(static_cast<std::size_t>(labels.of_windows[1][i]));
  for (const std::int64_t size : sizes) EXPECT_NEAR(static_cast<double>(size), 12.5, 0.6) << "balanced, as it was divided";
}

TEST(Cluster, divides_windows_by_the_states_of_a_model) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("p", {{"budget", "60 steps"}})), 0);
  ASSERT_EQ(run_here(cluster(store, "c", {{"features", {{"use", "states"}, {"layer", 1}}}, {"window", 0}}, "p")), 0);
  const Labels kept(store, "c", true), assigned(store, "c", false);
  EXPECT_EQ(kept.of_windows, assigned.of_windows) << "the model lies with the clustering";
  const json made = store.manifest("c");
  EXPECT_EQ(made["cost"]["tokens"], 323 * 16);
  EXPECT_FALSE(made.contains("model")) << "a clustering is no model";
}

TEST(Cluster, what_cannot_be_is_told) {
  const TinyStore store;
  EXPECT_EQ(run_here(cluster(store, "a", {{"features", {{"use", "states"}}}})), 1);
  EXPECT_EQ(run_here(cluster(store, "b", {{"features", {{"dimensions", 41}}}})), 1) << "there are 40 words";
  EXPECT_EQ(run_here(cluster(store, "c", {{"window", 0}})), 1);
  EXPECT_EQ(run_here(cluster(store, "d", {{"data", {{"domains", "no"}}}})), 1);
}

json importance(const TinyStore& store, const std::string& name, const json& more = json::object()) {
  json sampler = {
      {"use", "cluster-importance"}, {"clusters", "sampler.clusters"}, {"target", {{"domains", "domain2"}, {"tokens", 320}}}};
  sampler.merge_patch(more);
  return reads(store.pretrain(name, {{"sampler", sampler}, {"data", {{"without", {"domain2"}}}}, {"micro_batch", 3}}),
               "sampler.clusters", store.artifact("topics"));
}

TEST(Sampling, T42_windows_like_those_of_a_target_and_the_same_bits_after_every_stop) {
  const TinyStore store;
  ASSERT_EQ(run_here(cluster(store, "topics", {{"data", {{"without", {"domain2"}}}}})), 0);
  ASSERT_EQ(run_here(importance(store, "whole")), 0);
  const json job = importance(store, "parts");
  ASSERT_EQ(run_stopped_at_every_step(job), 0);
  EXPECT_EQ(store.digest("parts", "model.safetensors"), store.digest("whole", "model.safetensors"));
  EXPECT_EQ(store.file("parts", "series.jsonl"), store.file("whole", "series.jsonl"));
  const auto series = store.file("whole", "series.jsonl");
  for (const char* metric : {"effective_share", "repeats", "missing"})
    EXPECT_NE(series.find(metric), std::string::npos) << metric;
  EXPECT_TRUE(store.manifest("whole")["position"].empty()) << "no domain has been read in order";
}

TEST(Sampling, what_cannot_be_drawn_is_refused_when_the_stage_starts) {
  const TinyStore store;
  ASSERT_EQ(run_here(cluster(store, "topics", json::object())), 0);
  EXPECT_EQ(run_here(importance(store, "a", {{"epochs", 0.1}})), 1);
  EXPECT_EQ(run_here(importance(store, "b", {{"target", {{"domains", "nowhere"}}}})), 1);
  json mixed = importance(store, "c");
  mixed["config"]["mixing"] = "uniform";
  const Job job = *Job::from_json(mixed);
  const ComponentSet components = components_of(mixed);
  const std::map<std::string, PlannedModel> planned;
  const auto checked = find_verb("pretrain")->check({job, components, planned});
  ASSERT_EQ(checked.problems.size(), 1U);
  EXPECT_EQ(checked.problems[0].path, "mixing");
}

TEST(Sampling, T42_one_cluster_a_micro_batch_for_a_model_whose_experts_are_clusters) {
  const TinyStore store;
  ASSERT_EQ(run_here(cluster(store, "topics", json::object())), 0);
  ASSERT_EQ(run_here(store.pretrain("p")), 0);
  // Experts by label; the clustering lies with the model, as a construct stage leaves it.
  json construct = reads(store.construct("c", "p", {{"use", "label"}, {"clusters", "feed_forward.router.clusters"}},
                                         {{"use", "copy"}, {"count", 3}}),
                         "feed_forward.router.clusters", store.artifact("topics"));
  ASSERT_EQ(run_here(construct), 0);
  for (const char* file : {"clusters.json", "clusters.safetensors"}) {
    if (store.file("c", file).empty()) {
      ASSERT_TRUE(write_file(store.artifact("c") + "/" + file, store.file("topics", file)));
    }
  }
  const json changes = {{"sampler", {{"use", "by-cluster"}, {"clusters", "sampler.clusters"}}}, {"micro_batch", 2}};
  const auto job = [&](const std::string& name) {
    return reads(store.pretrain_from(name, "c", changes), "sampler.clusters", store.artifact("topics"));
  };
  ASSERT_EQ(run_here(job("whole")), 0);
  const json parts = job("parts");
  ASSERT_EQ(run_stopped_at_every_step(parts), 0);
  EXPECT_EQ(store.digest("parts", "model.safetensors"), store.digest("whole", "model.safetensors"));
  ASSERT_EQ(run_here(store.evaluate("e", "whole", {{"data", {{"split", "test"}}}})), 0) << "other windows are assigned";
  EXPECT_FALSE(store.file("whole", "clusters.json").empty()) << "it goes with the model";
  ASSERT_EQ(
      run_here(store.finetune("f", "whole", {{"task", nullptr}, {"data", {{"domains", "domain1"}}}, {"budget", "3 steps"}})), 0);
}

TEST(Labels, who_measures_a_model_numbers_its_domains_as_it_was_trained) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("p")), 0);
  ASSERT_EQ(run_here(store.construct("c", "p", {{"use", "label"}}, {{"use", "copy"}, {"count", 2}})), 0);
  const json two = {{"data", {{"domains", {"domain2", "domain1"}}}}, {"budget", "30 steps"}};
  ASSERT_EQ(run_here(store.pretrain_from("q", "c", two)), 0);
  const auto score = [&](const std::string& name, const json& domains) {
    EXPECT_EQ(run_here(store.evaluate(name, "q", {{"data", {{"domains", domains}}}})), 0);
    const std::string series = store.file(name, "series.jsonl");
    const auto line = series.find("domain1");
    return series.substr(line, series.find('\n', line) - line);
  };
  EXPECT_EQ(score("alone", "domain1"), score("both", json::array({"domain1", "domain2"})));
  EXPECT_EQ(run_here(store.evaluate("unknown", "q", {{"data", {{"domains", "domain0"}}}})), 1) << "it has no expert for it";
}

}  // namespace
}  // namespace moiety::engine
