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
  EXPECT_EQ(json::parse(store.file(name, "manifest.json"))["results"],
            json::parse(store.file(whole, "manifest.json"))["results"]);
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

}  // namespace
}  // namespace moiety::engine
