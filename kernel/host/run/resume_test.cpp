// Runs that are stopped, killed, doubled or have nowhere to write: nothing is lost, and the database tells the truth.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "kernel/base/text.h"
#include "kernel/host/run/process.h"
#include "kernel/host/run/testing/sandbox.h"

namespace moiety::host {
namespace {

using testing::Ran;
using testing::Sandbox;
using testing::two_arm_recipe;
namespace fs = std::filesystem;

using testing::has;

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t got = 0; (got = ::read(descriptor, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(got));
  return text;
}

Ran finish(Child& child) {
  Ran ran;
  ran.errors = read_all(child.stderr_descriptor());
  ran.output = read_all(child.stdout_descriptor());
  const auto exit = child.wait();
  ran.code = exit.signal != 0 ? 128 + exit.signal : exit.code;
  return ran;
}

/// `moiety run recipe.toml`, not waited for.
Child start(const Sandbox& box, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"run", "recipe.toml"};
  for (auto& word : more) words.push_back(std::move(word));
  auto child = Child::start(box.command(words));
  if (!child) throw std::runtime_error(child.error().message);
  return std::move(*child);
}

/// One arm, one seed, one long training.
std::string long_recipe(const std::string& behave = "slow") {
  return "[recipe]\nname = \"long\"\nseeds = 1\n\n[model]\nlayers = 2\n\n[stage.base]\ndo = \"train\"\nbehave = \"" + behave +
         "\"\n\n[stage.score]\ndo = \"evaluate\"\nfrom = \"base\"\n";
}

TEST(Resume, a_signal_stops_resumable_and_says_how_to_go_on) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Sandbox box;
    box.write("recipe.toml", long_recipe());
    auto child = start(box);
    ASSERT_TRUE(box.wait_for_call("run base"));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    child.send(signal);
    const auto ran = finish(child);
    EXPECT_EQ(ran.code, 128 + signal) << ran.all();
    EXPECT_TRUE(has(ran.errors, "To go on: moiety run recipe.toml\n")) << ran.errors;
    EXPECT_EQ(box.sql("SELECT state FROM attempt"), "interrupted");
    EXPECT_EQ(box.sql("SELECT state FROM stage WHERE name = 'base'"), "interrupted");
    EXPECT_EQ(box.sql("SELECT state FROM stage WHERE name = 'score'"), "waiting");
    EXPECT_EQ(box.sql("SELECT state FROM study"), "interrupted");
    const auto plan = box.run({"plan", "recipe.toml"});
    EXPECT_TRUE(has(plan.output, "1 resumable")) << plan.output;
    // The stage's text is part of its identity, so the resumed one is as slow: it is enough to see it go on, and to stop it.
    auto again = start(box);
    ASSERT_TRUE(box.wait_for_call("resumed at"));
    again.send(SIGINT);
    EXPECT_EQ(finish(again).code, 130);
    EXPECT_EQ(box.sql("SELECT count(*) FROM run"), "1");
  }
}

TEST(Resume, a_worker_stopped_by_somebody_else_is_no_failure_and_no_result) {
  Sandbox box;
  box.write("recipe.toml", long_recipe());
  auto child = start(box);
  ASSERT_TRUE(box.wait_for_call("run base"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const int pid = std::stoi(box.sql("SELECT pid FROM attempt"));
  ASSERT_GT(pid, 1);
  ASSERT_EQ(::kill(pid, SIGTERM), 0);
  const auto ran = finish(child);
  EXPECT_EQ(ran.code, 128 + SIGTERM) << ran.all();
  EXPECT_TRUE(has(ran.output, "0 of 1 runs done; interrupted, resumable: main seed 1")) << ran.output;
  EXPECT_EQ(box.sql("SELECT state FROM attempt"), "interrupted");
}

TEST(Resume, a_worker_that_does_not_listen_is_killed_by_the_second_signal) {
  Sandbox box;
  box.write("recipe.toml", long_recipe("stubborn"));
  auto child = start(box);
  ASSERT_TRUE(box.wait_for_call("run base"));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double begin = now_seconds();
  child.send(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(child.poll()) << "it did not wait for its worker";
  child.send(SIGINT);
  const auto ran = finish(child);
  EXPECT_EQ(ran.code, 130) << ran.all();
  EXPECT_LT(now_seconds() - begin, 9);
  EXPECT_EQ(box.sql("SELECT state || ' ' || signal FROM attempt"), "interrupted 9");
}

TEST(Resume, a_signal_while_the_data_is_prepared_ends_that_too) {
  Sandbox box;
  box.write("recipe.toml", long_recipe() + "\n[corpus]\nuse = \"debian-8\"\n");
  box.set("FAKE_DATA", "slow");
  auto child = start(box, {"--set", "stage.base.do=pretrain"});
  ASSERT_TRUE(box.wait_for_call("data prepare"));
  child.send(SIGINT);
  const auto ran = finish(child);
  EXPECT_EQ(ran.code, 130) << ran.all();
  EXPECT_TRUE(has(ran.errors, "To go on: moiety run recipe.toml --set stage.base.do=pretrain\n")) << ran.errors;
  EXPECT_FALSE(fs::exists(box.registry()));
}

TEST(Resume, killed_with_SIGKILL_the_next_run_cleans_up_and_goes_on) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe("seconds = 0.6\n"));
  auto child = start(box, {"--jobs", "2"});
  ASSERT_TRUE(box.wait_for_call("run tuned"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  child.send(SIGKILL);
  EXPECT_EQ(finish(child).code, 128 + SIGKILL);
  EXPECT_NE(box.sql("SELECT count(*) FROM attempt WHERE state = 'running'"), "0");
  const auto ran = box.run_recipe();
  ASSERT_EQ(ran.code, 0) << ran.all();
  EXPECT_EQ(box.sql("SELECT count(*) FROM attempt WHERE state = 'running'"), "0");
  EXPECT_NE(box.sql("SELECT count(*) FROM attempt WHERE state = 'interrupted'"), "0");
  EXPECT_EQ(box.sql("SELECT count(*) FROM v_runs WHERE state = 'done'"), "6");
  EXPECT_EQ(box.sql("SELECT count(*) FROM run"), "6");
  EXPECT_EQ(box.sql("SELECT count(*) FROM study"), "1");
  EXPECT_GE(box.calls("resumed at"), 1) << "the workers, told of the host's death, left checkpoints";
}

TEST(Resume, two_runs_at_once_share_one_store_and_run_each_stage_once) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe("seconds = 0.2\n"));
  auto first = start(box);
  auto second = start(box, {"--registry", box.path("other.db")});
  const auto a = finish(first);
  const auto b = finish(second);
  EXPECT_EQ(a.code, 0) << a.all();
  EXPECT_EQ(b.code, 0) << b.all();
  EXPECT_EQ(box.calls("run "), 13) << "a stage ran twice";
  EXPECT_EQ(box.sql("SELECT count(*) FROM v_runs WHERE state = 'done'"), "6");
  EXPECT_EQ(box.sql("SELECT round(mean, 6) FROM v_arms WHERE arm = 'high' AND metric = 'accuracy'"), "0.72");
}

TEST(Resume, two_runs_at_once_share_one_registry_too) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe("seconds = 0.2\n"));
  auto first = start(box);
  auto second = start(box);
  const auto a = finish(first);
  const auto b = finish(second);
  EXPECT_EQ(a.code, 0) << a.all();
  EXPECT_EQ(b.code, 0) << b.all();
  EXPECT_EQ(box.calls("run "), 13);
  EXPECT_EQ(box.sql("SELECT count(*) FROM stage WHERE state = 'done'"), "13");
  EXPECT_EQ(box.sql("SELECT count(*) FROM attempt WHERE state = 'done'"), "13") << "a stage has two costs";
}

TEST(Resume, a_damaged_result_is_set_aside_and_made_anew) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe());
  ASSERT_EQ(box.run_recipe().code, 0);
  const auto id = box.sql("SELECT id FROM stage WHERE name = 'base'");
  const auto model = box.store() + "/objects/" + id.substr(0, 2) + "/" + id + "/model.json";
  ASSERT_TRUE(write_file(model, "cut"));
  box.forget_calls();
  const auto ran = box.run_recipe();
  EXPECT_EQ(ran.code, 0) << ran.all();
  EXPECT_EQ(box.calls("run base"), 1);
  EXPECT_EQ(box.calls("run "), 1);
  EXPECT_TRUE(has(ran.errors, "its stored result is damaged (model.json has 3 bytes")) << ran.errors;
  EXPECT_EQ(box.sql("SELECT count(*) FROM event WHERE level = 'warning'"), "1");
}

TEST(Resume, a_store_or_registry_that_cannot_be_written_is_exit_3) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe());
  box.write("file", "in the way");
  const auto no_store = box.run_recipe({"--store", box.path("file/store")});
  EXPECT_EQ(no_store.code, 3) << no_store.all();
  EXPECT_TRUE(has(no_store.errors, box.path("file/store"))) << no_store.errors;
  const auto no_registry = box.run_recipe({"--registry", box.path("file/moiety.db")});
  EXPECT_EQ(no_registry.code, 3) << no_registry.all();
  EXPECT_EQ(box.calls("run"), 0);
}

TEST(Resume, a_store_that_becomes_unwritable_in_the_middle_stops_resumable) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe("seconds = 0.3\n"));
  auto child = start(box, {"--jobs", "1"});
  ASSERT_TRUE(box.wait_for_call("run tuned"));
  // Work folders of stages that come later cannot be made: a file stands where they would be.
  const auto kept = box.path("kept");
  fs::rename(box.store() + "/work", kept);
  ASSERT_TRUE(write_file(box.store() + "/work", "in the way"));
  const auto ran = finish(child);
  EXPECT_EQ(ran.code, 3) << ran.all();
  EXPECT_TRUE(has(ran.errors, "resumable")) << ran.errors;
  EXPECT_EQ(box.sql("SELECT count(*) FROM attempt WHERE state = 'running'"), "0");
  fs::remove(box.store() + "/work");
  fs::rename(kept, box.store() + "/work");
  const auto again = box.run_recipe();
  EXPECT_EQ(again.code, 0) << again.all();
  EXPECT_EQ(box.sql("SELECT count(*) FROM v_runs WHERE state = 'done'"), "6");
}

}  // namespace
}  // namespace moiety::host
