// A training stage that goes on where another one stopped: at a snapshot, with the optimizer, the schedule and the data in place.
#include "kernel/engine/stages/continuation.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "kernel/engine/stages/artifact.h"
#include "kernel/engine/testing/job_fixture.h"
#include "kernel/engine/worker/run.h"

namespace moiety::engine {
namespace {

using nlohmann::json;
using testing::run_here;
using testing::run_stopped_at_every_step;
using testing::TinyStore;

const json as_in_whole = {{"dropout", 0.2}, {"micro_batch", 3}};

/// A pretraining of 12 steps that keeps its state at these points.
json with_snapshots(const TinyStore& store, const std::vector<std::string>& points) {
  json job = store.pretrain("whole", as_in_whole);
  job["snapshots"] = points;
  return job;
}

json continuing(const TinyStore& store, const std::string& name, const std::string& from, const std::string& point,
                const json& more = {{"budget", "rest"}}) {
  json job = store.pretrain_from(name, from, as_in_whole);
  job["config"].merge_patch(more);
  job["config"]["continues"] = true;
  json& input = job["inputs"].back();
  if (!point.empty()) {
    input["path"] = store.artifact(from) + "/" + snapshot_folder(point);
    input["snapshot"] = point;
  }
  return job;
}

TEST(Continuation, points_are_steps) {
  const ScheduleState schedule{0, 600, 2048};
  EXPECT_EQ(*schedule.step_of("10%"), 60);
  EXPECT_EQ(*schedule.step_of("0%"), 0);
  EXPECT_EQ(*schedule.step_of("100%"), 600);
  EXPECT_EQ(*schedule.step_of("400k tokens"), 196);
  EXPECT_EQ(*schedule.step_of("25 steps"), 25);
  for (const char* wrong : {"", "10", "ten%", "110%", "-1%", "601 steps", "2M tokens", "3 hours", "% "})
    EXPECT_FALSE(schedule.step_of(wrong)) << wrong;
  EXPECT_EQ(snapshot_folder("10%"), "snapshots/10pct");
  EXPECT_EQ(snapshot_folder("400k tokens"), "snapshots/400k-tokens");
}

TEST(Continuation, T42_going_on_from_a_snapshot_is_not_stopping_at_all) {
  const TinyStore store;
  ASSERT_EQ(run_here(with_snapshots(store, {"50%", "0%", "100%"})), 0);
  ASSERT_EQ(run_here(continuing(store, "rest", "whole", "50%")), 0);
  EXPECT_EQ(store.digest("rest", "model.safetensors"), store.digest("whole", "model.safetensors"));
  ASSERT_EQ(run_here(continuing(store, "all", "whole", "0%")), 0);
  EXPECT_EQ(store.digest("all", "model.safetensors"), store.digest("whole", "model.safetensors"));
  EXPECT_EQ(store.digest("whole/" + snapshot_folder("100%"), "model.safetensors"), store.digest("whole", "model.safetensors"));
  const json manifest = store.manifest("rest");
  EXPECT_EQ(manifest["schedule"]["step"], 12);
  EXPECT_EQ(manifest["cost"]["tokens"], 6 * 4 * 16) << "of its own six steps";
}

TEST(Continuation, T42_snapshots_and_the_stage_that_goes_on_survive_being_stopped_at_every_step) {
  const TinyStore store, other;
  ASSERT_EQ(run_here(with_snapshots(store, {"50%"})), 0);
  const json stopped = with_snapshots(other, {"50%"});
  ASSERT_EQ(run_stopped_at_every_step(stopped), 0);
  for (const char* file : {"model.safetensors", "training.safetensors"})
    EXPECT_EQ(store.digest("whole/" + snapshot_folder("50%"), file), other.digest("whole/" + snapshot_folder("50%"), file))
        << file;
  const json rest = continuing(other, "rest", "whole", "50%");
  ASSERT_EQ(run_stopped_at_every_step(rest), 0);
  EXPECT_EQ(other.digest("rest", "model.safetensors"), store.digest("whole", "model.safetensors"));
}

TEST(Continuation, two_stages_after_one_another_with_the_optimizer_kept) {
  const TinyStore store;
  ASSERT_EQ(run_here(with_snapshots(store, {"25%"})), 0);
  json middle = continuing(store, "middle", "whole", "25%", {{"budget", "4 steps"}});
  middle["keep_optimizer"] = true;
  ASSERT_EQ(run_here(middle), 0);
  ASSERT_EQ(run_here(continuing(store, "end", "middle", "")), 0);
  EXPECT_EQ(store.digest("end", "model.safetensors"), store.digest("whole", "model.safetensors"));
}

TEST(Continuation, expansion_in_the_middle_keeps_moments_and_schedule) {
  const TinyStore store;
  ASSERT_EQ(run_here(with_snapshots(store, {"50%"})), 0);
  json construct = store.construct("copies", "whole", {{"use", "uniform"}}, {{"use", "copy"}, {"count", 2}});
  construct["inputs"][0]["path"] = store.artifact("whole") + "/" + snapshot_folder("50%");
  construct["inputs"][0]["snapshot"] = "50%";
  ASSERT_EQ(run_here(construct), 0);
  const auto file = read_model_file(store.artifact("copies"));
  ASSERT_TRUE(file);
  const auto state = read_training_state(*file);
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(state->schedule.step, 6);
  EXPECT_EQ(state->schedule.steps, 12);
  const auto dense = read_model_file(store.artifact("whole") + "/" + snapshot_folder("50%"));
  ASSERT_TRUE(dense);
  const auto before = read_training_state(*dense);
  ASSERT_TRUE(before);
  for (const char* moment : {"first", "second"}) {
    const std::string name = std::string(moment) + ".layer1.feed_forward.in";
    for (std::int64_t n = 0; n < 2; ++n) EXPECT_TRUE(at::equal(state->moments.at(name)[n], before->moments.at(name)));
    EXPECT_TRUE(at::equal(state->moments.at(std::string(moment) + ".embedding.tokens"),
                          before->moments.at(std::string(moment) + ".embedding.tokens")));
  }
  ASSERT_EQ(run_here(continuing(store, "expanded", "copies", "")), 0);
  EXPECT_EQ(store.manifest("expanded")["schedule"]["step"], 12);
  EXPECT_EQ(store.manifest("expanded")["cost"]["tokens"], 6 * 4 * 16);
}

TEST(Continuation, a_plan_knows_points_in_tokens_and_what_is_left) {
  const TinyStore store;
  json whole = with_snapshots(store, {"384 tokens"}), rest = continuing(store, "rest", "whole", "384 tokens");
  std::vector<std::string> paths;
  for (const json* job : {&whole, &rest}) {
    paths.push_back((*job)["work"].get<std::string>() + "/job.json");
    ASSERT_TRUE(write_file(paths.back(), job->dump()));
  }
  std::string told;
  ASSERT_EQ(check_jobs(paths, told), 0);
  const json line = json::parse(told.substr(told.find('\n') + 1));
  EXPECT_TRUE(line["problems"].empty()) << line;
  EXPECT_EQ(line["cost"]["tokens"], 6 * 4 * 16);
}

TEST(Continuation, a_model_that_kept_no_optimizer_is_refused) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("plain")), 0);
  EXPECT_EQ(run_here(continuing(store, "no", "plain", "")), 1);
}

}  // namespace
}  // namespace moiety::engine
