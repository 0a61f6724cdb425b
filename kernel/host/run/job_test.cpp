#include "kernel/host/run/job.h"

#include <gtest/gtest.h>

#include "kernel/base/files.h"

namespace moiety::host {
namespace {

using nlohmann::json;
const std::string kRead(64, 'a');
const std::string kId(64, 'b');

ComponentDeclaration component(const std::string& kind, const std::string& name) {
  ComponentDeclaration declaration;
  declaration.kind = kind;
  declaration.name = name;
  declaration.file = "/p/" + name + ".moiety.so";
  declaration.build_id = "build-" + name;
  return declaration;
}

/// A fine-tuning that reads a model whose sites have a constructor with a clusterer, and a router.
class JobTest : public ::testing::Test {
 protected:
  JobTest() {
    auto split = component("expert_constructor", "split");
    ParameterDeclaration part;
    part.name = "points.clusterer";
    part.type = "component";
    part.kind = "clusterer";
    split.parameters.push_back(part);
    catalog_.components = {split, component("clusterer", "k-means"), component("router", "avg-k")};
    verb_.name = "finetune";
    PlannedStage read;
    read.id = kRead;
    read.verb = &verb_;
    read.components = {{"feed_forward.experts", &catalog_.components[0]},
                       {"feed_forward.experts.points.clusterer", &catalog_.components[1]}};
    PlannedStage stage;
    stage.id = kId;
    stage.name = "tuned";
    stage.verb = &verb_;
    stage.task = "supersense@1";
    stage.inputs = {{"from", kRead}};
    stage.seeds = {{"data", 3}};
    plan_.stages = {read, stage};
    data_.tasks["supersense@1"] = {"supersense@1", "/t", "task-hash"};
  }
  void store_model(const std::string& router) {
    const json manifest = {
        {"stage", kRead},
        {"sites",
         {{{"layer", 2},
           {"place", "feed_forward"},
           {"constructor",
            {{"use", "split@1"}, {"config", {{"use", "split@1"}, {"points", {{"clusterer", {{"use", "k-means@1"}}}}}}}}},
           {"router", {{"use", router}, {"config", {{"k", 8}}}}}}}}};
    ASSERT_TRUE(make_folders(store_.artifact(kRead)));
    ASSERT_TRUE(write_file(store_.artifact(kRead) + "/manifest.json", manifest.dump()));
  }
  JobContext context() { return {plan_, catalog_, store_, data_, "/r/moiety.db"}; }

  TemporaryFolder folder_;
  Store store_{folder_.path()};
  Catalog catalog_;
  VerbDeclaration verb_;
  Plan plan_;
  PreparedFolders data_;
};

TEST_F(JobTest, says_all_that_a_worker_must_know) {
  store_model("avg-k@1");
  const auto job = make_job(context(), plan_.stages[1], 17);
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ((*job)["stage"], kId);
  EXPECT_EQ((*job)["verb"], "finetune");
  EXPECT_EQ((*job)["seeds"]["data"], 3);
  EXPECT_EQ((*job)["inputs"][0]["path"], store_.artifact(kRead));
  EXPECT_EQ((*job)["task"], json({{"path", "/t"}, {"hash", "task-hash"}}));
  EXPECT_TRUE((*job)["corpus"].is_null());
  EXPECT_EQ((*job)["attempt"], 17);
  EXPECT_EQ((*job)["work"], store_.work(kId));
}

TEST_F(JobTest, states_on_the_way_groups_and_a_part_of_the_corpus) {
  store_model("avg-k@1");
  data_.corpus = {"debian-8@1", "/c", "corpus-hash"};
  auto& stage = plan_.stages[1];
  stage.inputs[0].snapshot = "400k tokens";
  stage.inputs.push_back({"sampler.clusters", kRead});
  stage.corpus_hash = "corpus-hash";
  stage.fraction = 0.1;
  stage.groups = {{"tail", {{"of", {"law"}}}}};
  stage.snapshots = {"10%"};
  stage.keep_optimizer = true;
  const auto job = make_job(context(), stage, 1);
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ((*job)["inputs"], json::array({{{"name", "from"},
                                            {"stage", kRead},
                                            {"snapshot", "400k tokens"},
                                            {"path", store_.artifact(kRead) + "/snapshots/400k-tokens"}},
                                           {{"name", "sampler.clusters"}, {"stage", kRead}, {"path", store_.artifact(kRead)}}}));
  EXPECT_EQ((*job)["corpus"], json({{"path", "/c"}, {"hash", "corpus-hash"}, {"fraction", 0.1}}));
  EXPECT_EQ((*job)["groups"], json({{"tail", {{"of", {"law"}}}}}));
  EXPECT_EQ((*job)["snapshots"], json::array({"10%"}));
  EXPECT_EQ((*job)["keep_optimizer"], true);
  EXPECT_EQ((*job)["components"][0]["slot"], "sampler.clusters.layer2.feed_forward.experts")
      << "those of a state are in its own manifest, which is not there yet";
}

TEST_F(JobTest, the_components_of_a_model_that_is_read_come_along_with_their_parts) {
  store_model("avg-k@1");
  const auto job = make_job(context(), plan_.stages[1], 1);
  ASSERT_TRUE(job);
  std::vector<std::string> found;
  for (const auto& one : (*job)["components"])
    found.push_back(one["slot"].get<std::string>() + " " + one["name"].get<std::string>());
  EXPECT_EQ(found, (std::vector<std::string>{"from.layer2.feed_forward.experts split",
                                             "from.layer2.feed_forward.experts.points.clusterer k-means",
                                             "from.layer2.feed_forward.router avg-k"}));
  EXPECT_EQ((*job)["components"][1]["file"], "/p/k-means.moiety.so");
  EXPECT_EQ((*job)["components"][1]["build_id"], "build-k-means");
}

TEST_F(JobTest, a_component_that_is_gone_is_named) {
  store_model("vanished@1");
  const auto job = make_job(context(), plan_.stages[1], 1);
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().message, "the model that it reads needs router/vanished@1, which no plugin provides");
}

TEST_F(JobTest, the_dry_pass_takes_components_of_models_that_do_not_exist_yet_from_the_plan) {
  const auto job = make_check_job(context(), plan_.stages[1]);
  ASSERT_EQ(job["components"].size(), 2U);
  EXPECT_EQ(job["components"][0]["slot"], "from.feed_forward.experts");
  EXPECT_EQ(job["components"][1]["slot"], "from.feed_forward.experts.points.clusterer");
}

}  // namespace
}  // namespace moiety::host
