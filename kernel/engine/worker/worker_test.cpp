// moiety-worker as a process: signals, crashes, components that misbehave, a full disk.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "kernel/base/files.h"
#include "kernel/base/text.h"
#include "kernel/engine/stages/stage.h"
#include "kernel/engine/testing/job_fixture.h"
#include "registry/registry.h"

namespace moiety::engine {
namespace {

using nlohmann::json;
using testing::run_here;
using testing::TinyStore;
using testing::WorkerProcess;
namespace fs = std::filesystem;

/// What a command prints.
std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = ::popen(command.c_str(), "r");
  char buffer[4096];
  for (std::size_t got; pipe != nullptr && (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, got);
  if (pipe != nullptr) ::pclose(pipe);
  return text;
}
const std::string program = std::string(MOIETY_BUILD_FOLDER) + "/bin/moiety-worker";

TEST(Worker, T08_done_is_said_only_by_an_explicit_end_and_rows_are_in_the_registry) {
  const TinyStore store;
  json job = store.pretrain("p");
  job["registry"] = store.path("moiety.db");
  {
    auto registry = registry::Registry::open(store.path("moiety.db"), registry::OpenMode::create);
    ASSERT_TRUE(registry);
    registry::StageRow stage;
    stage.id = "p";
    stage.name = "p";
    stage.verb = "pretrain";
    stage.config = job["config"];
    ASSERT_TRUE(registry->add_stage(stage));
    registry::AttemptRow attempt;
    attempt.stage_id = "p";
    attempt.pid = ::getpid();
    const auto begun = registry->begin_attempt(attempt);
    ASSERT_TRUE(begun) << begun.error().message;
    job["attempt"] = *begun;
  }
  WorkerProcess worker(job);
  EXPECT_EQ(worker.finish(), 0) << worker.errors();
  const auto end = worker.last("end");
  EXPECT_EQ(end["state"], "done");
  EXPECT_EQ(end["tokens"], 12 * 64);
  EXPECT_GT(end["cpu_seconds"].get<double>(), 0);
  EXPECT_EQ(worker.lines().back().begin().key(), "end");
  ASSERT_FALSE(worker.last("progress").is_null());
  EXPECT_EQ(worker.last("progress")["unit"], "tokens");
  auto registry = registry::Registry::open(store.path("moiety.db"), registry::OpenMode::existing);
  ASSERT_TRUE(registry);
  const auto rows = registry->series("p");
  ASSERT_TRUE(rows);
  std::size_t lines = 0;
  for (const auto& line : split(store.file("p", "series.jsonl"), '\n')) lines += line.empty() ? 0 : 1;
  EXPECT_EQ(rows->size(), lines);
}

TEST(Worker, an_interrupt_writes_a_checkpoint_and_the_next_start_goes_on_to_the_same_bits) {
  const TinyStore store;
  const json changes = {{"budget", "400 steps"}};
  ASSERT_EQ(run_here(store.pretrain("whole", changes)), 0);
  const json job = store.pretrain("p", changes);
  for (const int number : {SIGINT, SIGTERM}) {
    WorkerProcess worker(job);
    ASSERT_TRUE(worker.wait_for("progress")) << worker.errors();
    worker.signal(number);
    EXPECT_EQ(worker.finish(), 128 + number) << worker.errors();
    EXPECT_EQ(worker.last("end")["state"], "interrupted");
    EXPECT_TRUE(fs::exists(store.work("p") + "/checkpoint"));
    EXPECT_FALSE(fs::exists(store.artifact("p")));
  }
  WorkerProcess worker(job);
  EXPECT_EQ(worker.finish(), 0) << worker.errors();
  EXPECT_EQ(store.digest("p", "model.safetensors"), store.digest("whole", "model.safetensors"));
  EXPECT_EQ(store.file("p", "series.jsonl"), store.file("whole", "series.jsonl"));
}

TEST(Worker, no_thread_that_computes_ever_runs_a_signal_handler) {
  // oneDNN's kernels keep data below the stack pointer: a handler on such a thread corrupts memory.
  const TinyStore store;
  json job = store.pretrain("p", {{"budget", "1000000 steps"}});
  job["threads"] = 2;
  WorkerProcess worker(job);
  ASSERT_TRUE(worker.wait_for("progress")) << worker.errors();
  for (const auto& task : fs::directory_iterator("/proc/" + std::to_string(worker.pid()) + "/task")) {
    for (const auto& line : split(read_file(task.path().string() + "/status").value_or(""), '\n')) {
      if (line.rfind("SigCgt:", 0) != 0) continue;
      const auto caught = std::stoull(line.substr(8), nullptr, 16);
      for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGPROF, SIGUSR1, SIGCHLD})
        EXPECT_EQ(caught >> (number - 1) & 1U, 0U) << number;
    }
  }
  worker.signal(SIGTERM);
  EXPECT_EQ(worker.finish(), 143);
}

TEST(Worker, a_damaged_checkpoint_is_set_aside_told_and_the_stage_starts_anew) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("whole")), 0);
  const json job = store.pretrain("p");
  ASSERT_EQ(run_here(job, SIGTERM), 143);
  const std::string file = store.work("p") + "/checkpoint/model.safetensors";
  std::string bytes = *read_file(file);
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 1);
  ASSERT_TRUE(write_file(file, bytes));
  WorkerProcess worker(job);
  EXPECT_EQ(worker.finish(), 0);
  EXPECT_NE(worker.errors().find("was damaged and set aside"), std::string::npos) << worker.errors();
  EXPECT_TRUE(fs::exists(store.work("p") + "/checkpoint.damaged"));
  EXPECT_EQ(store.digest("p", "model.safetensors"), store.digest("whole", "model.safetensors"));
}

TEST(Worker, a_series_shorter_than_its_checkpoint_is_a_damaged_checkpoint) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("whole")), 0);
  const json job = store.pretrain("p");
  ASSERT_EQ(run_here(job, SIGTERM), 143);
  fs::resize_file(store.work("p") + "/series.jsonl", 3);
  EXPECT_EQ(run_here(job), 0);
  EXPECT_EQ(store.file("p", "series.jsonl"), store.file("whole", "series.jsonl"));
}

TEST(Worker, a_full_disk_is_exit_3_nothing_half_written_and_resumable) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("whole")), 0);
  json job = store.pretrain("p");
  job["checkpoint_seconds"] = 0;
  ASSERT_EQ(run_here(job, SIGTERM), 143);
  {
    // No file may grow beyond 8 blocks: neither series nor checkpoint fits.
    WorkerProcess worker(job, "ulimit -f 8");
    EXPECT_EQ(worker.finish(), 3) << worker.errors();
    EXPECT_EQ(worker.last("end")["state"], "interrupted");
    EXPECT_FALSE(worker.last("end")["error"].get<std::string>().empty());
    EXPECT_FALSE(fs::exists(store.artifact("p")));
    EXPECT_FALSE(fs::exists(store.work("p") + "/checkpoint.new"));
    EXPECT_TRUE(fs::exists(store.work("p") + "/checkpoint"));
  }
  EXPECT_EQ(run_here(job), 0);
  EXPECT_EQ(store.digest("p", "model.safetensors"), store.digest("whole", "model.safetensors"));
  EXPECT_EQ(store.file("p", "series.jsonl"), store.file("whole", "series.jsonl"));
}

/// A model whose layers are routed by a component that misbehaves, fine-tuned by a worker.
class Misbehaving : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(run_here(store_.pretrain("p")), 0); }
  json job(const std::string& router) {
    json construct = store_.construct("c-" + router, "p", {{"use", router}, {"k", 2}, {"after", 3}});
    testing::add_component(construct, "router", router, "moiety-bad", "bad_routers");
    EXPECT_EQ(run_here(construct), 0);
    json tune = store_.finetune("f-" + router, "c-" + router);
    testing::add_component(tune, "router", router, "moiety-bad", "bad_routers");
    return tune;
  }
  TinyStore store_;
};

TEST_F(Misbehaving, P13_an_exception_a_wrong_shape_and_nan_fail_the_stage_with_names) {
  for (const char* router : {"throws", "foreign", "wrong-shape", "not-a-number"}) {
    WorkerProcess worker(job(router));
    EXPECT_EQ(worker.finish(), 1) << router << worker.errors();
    const auto end = worker.last("end");
    EXPECT_EQ(end["state"], "failed");
    EXPECT_EQ(end["component"], std::string("router/") + router + "@1");
    EXPECT_EQ(end["function"], "route");
    EXPECT_EQ(end["error"].get<std::string>().find('\n'), std::string::npos);
    EXPECT_FALSE(fs::exists(store_.artifact(std::string("f-") + router)));
  }
}

TEST_F(Misbehaving, P13_a_crash_names_the_component_in_flight) {
  WorkerProcess worker(job("segfaults"));
  EXPECT_EQ(worker.finish(), -SIGSEGV);
  EXPECT_TRUE(worker.last("end").is_null());
  const auto crash = worker.last("crash");
  EXPECT_EQ(crash["signal"], SIGSEGV);
  EXPECT_EQ(crash["component"], "router/segfaults@1");
  EXPECT_EQ(crash["function"], "route");
}

TEST_F(Misbehaving, P13_a_hang_shows_in_the_beat) {
  WorkerProcess worker(job("hangs"));
  double seconds = 0;
  while (seconds < 1 && worker.wait_for("beat")) seconds = worker.last("beat").value("seconds", 0.0);
  EXPECT_GE(seconds, 1);
  EXPECT_EQ(worker.last("beat")["component"], "router/hangs@1");
  EXPECT_EQ(worker.last("beat")["function"], "route");
  worker.signal(SIGKILL);
  EXPECT_EQ(worker.finish(), -SIGKILL);
}

TEST(Worker, ends_itself_resumably_when_its_parent_is_gone) {
  const TinyStore store;
  const json job = store.pretrain("p", {{"budget", "1000000 steps"}});
  const std::string path = store.work("p") + "/job.json";
  ASSERT_TRUE(write_file(path, job.dump()));
  // The shell starts a worker and is killed once the worker trains.
  const std::string lines = store.path("lines");
  output_of("sh -c '\"" + program + "\" --run " + path + " >" + lines +
            " 2>/dev/null & "
            "while ! grep -q progress " +
            lines + " 2>/dev/null; do sleep 0.05; done; kill -9 $$' 2>/dev/null");
  for (int i = 0; i < 600; ++i) {
    if (read_file(lines).value_or("").find("\"end\"") != std::string::npos) break;
    ::usleep(50000);
  }
  EXPECT_NE(read_file(lines).value_or("").find("interrupted"), std::string::npos);
  EXPECT_TRUE(fs::exists(store.work("p") + "/checkpoint"));
}

TEST(Worker, T43_tells_cpu_and_the_builds_of_itself_and_of_libtorch) {
  const auto told = json::parse(output_of(program + " --describe"));
  EXPECT_EQ(output_of("readelf -n " + program).find(told["worker"]["build_id"].get<std::string>()) != std::string::npos, true);
  EXPECT_GE(told["worker"]["build_id"].get<std::string>().size(), 16U);
  EXPECT_GE(told["worker"]["torch_build_id"].get<std::string>().size(), 16U);
  EXPECT_FALSE(told["worker"]["cpu"].get<std::string>().empty());
  EXPECT_EQ(told["verbs"].size(), verbs().size());
  EXPECT_EQ(told["model"][0]["name"], "family");
}

TEST(Worker, a_wrong_command_line_or_job_is_refused) {
  EXPECT_NE(output_of(program + " --rum 2>&1; echo $?").find("2\n"), std::string::npos);
  EXPECT_NE(output_of(program + " --run /nowhere.json 2>&1; echo $?").find("3\n"), std::string::npos);
  const TinyStore store;
  ASSERT_TRUE(write_file(store.path("bad.json"), "{\"stage\":"));
  EXPECT_NE(output_of(program + " --run " + store.path("bad.json") + " 2>&1; echo $?").find("is not JSON"), std::string::npos);
}

}  // namespace
}  // namespace moiety::engine
