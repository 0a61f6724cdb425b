// SIGKILL at twenty random moments, in training stages of either kind: what is left in the end is what nobody disturbed.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "kernel/engine/testing/job_fixture.h"
#include "moiety/random.h"

namespace moiety::engine {
namespace {

using nlohmann::json;
using testing::run_here;
using testing::TinyStore;
using testing::WorkerProcess;

void kill_twenty_times(const TinyStore& store, json job, const std::string& name, const std::string& whole, std::uint64_t seed) {
  job["checkpoint_seconds"] = 0.02;  // so that many kills meet a checkpoint being written
  Random random(seed);
  int kills = 0;
  while (kills < 20) {
    WorkerProcess worker(job);
    if (!worker.wait_for("progress")) {
      ASSERT_EQ(worker.finish(), 0) << worker.errors();
      break;
    }
    ::usleep(static_cast<useconds_t>(random.below(120000)));
    worker.signal(SIGKILL);
    const int code = worker.finish();
    if (code == 0) break;
    ASSERT_EQ(code, -SIGKILL) << worker.errors();
    ++kills;
  }
  EXPECT_EQ(kills, 20) << "the job was too short to be killed twenty times";
  if (store.file(name, "manifest.json").empty()) {
    job["checkpoint_seconds"] = 30;
    ASSERT_EQ(run_here(job), 0);
  }
  EXPECT_EQ(store.digest(name, "model.safetensors"), store.digest(whole, "model.safetensors"));
  EXPECT_EQ(store.file(name, "series.jsonl"), store.file(whole, "series.jsonl"));
  EXPECT_EQ(store.manifest(name)["results"], store.manifest(whole)["results"]);
}

TEST(Kill, T42_pretraining_killed_at_twenty_random_moments_ends_with_the_same_bits) {
  const TinyStore store;
  const json changes = {{"budget", "2000 steps"}, {"validation", {{"every_steps", 500}}}};
  json whole = store.pretrain("whole", changes), killed = store.pretrain("p", changes);
  whole["threads"] = killed["threads"] = 2;
  ASSERT_EQ(run_here(whole), 0);
  kill_twenty_times(store, killed, "p", "whole", 1);
}

TEST(Kill, T42_fine_tuning_killed_at_twenty_random_moments_ends_with_the_same_bits) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("p")), 0);
  ASSERT_EQ(run_here(store.construct("c", "p", {{"use", "avg-k"}, {"k", 2}})), 0);
  const json changes = {{"budget", "16k examples"}, {"dropout", 0.1}};
  ASSERT_EQ(run_here(store.finetune("whole", "c", changes)), 0);
  kill_twenty_times(store, store.finetune("f", "c", changes), "f", "whole", 2);
}

TEST(Kill, T42_cluster_experts_killed_at_twenty_random_moments_end_with_the_same_bits_and_centres) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("p", {{"budget", "60 steps"}})), 0);
  ASSERT_EQ(run_here(store.cluster_experts("c", "p")), 0);
  const json changes = {{"budget", "1500 steps"}, {"dropout", 0.1}};
  ASSERT_EQ(run_here(store.pretrain_from("whole", "c", changes)), 0);
  kill_twenty_times(store, store.pretrain_from("t", "c", changes), "t", "whole", 3);
  EXPECT_EQ(store.digest("t", "state.safetensors"), store.digest("whole", "state.safetensors"));
}

/// What the systems train, each on what it must read: a name of the test's, and the job.
class KillSystems : public ::testing::TestWithParam<const char*> {
 protected:
  static json reading(json job, const std::string& slot, const std::string& path) {
    job["inputs"].push_back({{"name", slot}, {"stage", slot}, {"path", path}});
    return job;
  }
  /// Makes what is read; then the same job under several names.
  void prepare(const std::string& system) {
    ASSERT_EQ(run_here(store_.pretrain("p")), 0);
    if (system == "bam") {
      ASSERT_EQ(run_here(store_.pretrain_from("branch", "p")), 0);
      json job = reading(store_.construct("made", "p", {{"use", "top-k"}, {"k", 1}}, {{"use", "merge"}}), "from",
                         store_.artifact("branch"));
      job["config"]["attention"] = {
          {"layers", "all"}, {"experts", {{"use", "attention"}, {"keys_values", "shared"}}}, {"router", "soft"}};
      ASSERT_EQ(run_here(job), 0);
    } else if (system == "projected" || system == "importance") {
      ASSERT_EQ(run_here(store_.topics("topics")), 0);
      json job = store_.construct("made", "", {{"use", "label"}, {"clusters", "feed_forward.router.clusters"}},
                                  {{"use", "projected"}, {"count", 3}, {"bank", 2}, {"code", 4}});
      ASSERT_EQ(run_here(reading(job, "feed_forward.router.clusters", store_.artifact("topics"))), 0);
    } else if (system == "mixture") {
      ASSERT_EQ(run_here(store_.topics("topics")), 0);
      ASSERT_EQ(run_here(store_.whole_models("made", "", "topics")), 0);
    } else if (system == "expert-choice") {
      json job = store_.construct("made", "p", {{"use", "expert-choice"}});
      ASSERT_EQ(run_here(job), 0);
    } else if (system == "continues") {
      json job = store_.pretrain("long", {{"budget", "3000 steps"}});
      job["snapshots"] = {"30%"};
      ASSERT_EQ(run_here(job), 0);
    }
  }
  json job(const std::string& system, const std::string& name) const {
    const json long_enough = {{"budget", "1500 steps"}, {"dropout", 0.1}, {"validation", {{"every_steps", 500}}}};
    if (system == "bam" || system == "expert-choice" || system == "mixture")
      return store_.pretrain_from(name, "made", long_enough);
    if (system == "doremi") {
      json made = store_.pretrain(name, long_enough);
      made["config"]["mixing"] = {{"use", "doremi"}, {"reference", "mixing.reference"}};
      return reading(made, "mixing.reference", store_.artifact("p"));
    }
    if (system == "lie-bracket") {
      json made = store_.pretrain(name, long_enough);
      made["config"]["mixing"] = {{"use", "lie-bracket"}};
      return made;
    }
    if (system == "continues") {
      json made = store_.pretrain_from(name, "long", {{"budget", "rest"}, {"continues", true}});
      made["inputs"].back()["path"] = store_.artifact("long") + "/snapshots/30pct";
      made["inputs"].back()["snapshot"] = "30%";
      return made;
    }
    if (system == "teacher") {
      const json changes = {{"budget", "12k examples"}, {"distill", {{"weight", 0.5}, {"temperature", 2.0}}}};
      return reading(store_.finetune(name, "p", changes), "teacher", store_.artifact("tuned"));
    }
    const char* sampler = system == "projected" ? "by-cluster" : "cluster-importance";
    json made = system == "projected" ? store_.pretrain_from(name, "made", long_enough) : store_.pretrain(name, long_enough);
    made["config"]["sampler"] = {{"use", sampler}, {"clusters", "sampler.clusters"}};
    if (system == "importance") made["config"]["sampler"]["target"] = {{"domains", "domain2"}};
    return reading(made, "sampler.clusters", store_.artifact("topics"));
  }
  TinyStore store_;
};

TEST_P(KillSystems, T42_killed_at_twenty_random_moments_it_ends_with_the_same_bits) {
  const std::string system = GetParam();
  prepare(system);
  if (system == "teacher") {
    ASSERT_EQ(run_here(store_.finetune("tuned", "p")), 0);
  }
  ASSERT_EQ(run_here(job(system, "whole")), 0);
  kill_twenty_times(store_, job(system, "killed"), "killed", "whole", 4);
}

INSTANTIATE_TEST_SUITE_P(Systems, KillSystems,
                         ::testing::Values("bam", "projected", "importance", "expert-choice", "doremi", "lie-bracket",
                                           "continues", "teacher", "mixture"),
                         [](const auto& system) {
                           std::string name = system.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace moiety::engine
