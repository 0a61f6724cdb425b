// Shared by the tests of this folder: a registry in a folder of its own, a small study, child processes.
#ifndef MOIETY_REGISTRY_TEST_SUPPORT_H_
#define MOIETY_REGISTRY_TEST_SUPPORT_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernel/base/files.h"
#include "kernel/base/hash.h"
#include "registry/internal.h"

#define ASSERT_OK(expression)                                                                                \
  do {                                                                                                       \
    const auto& result_ = (expression);                                                                      \
    ASSERT_TRUE(result_) << #expression << ": " << result_.error().message << " | " << result_.error().hint; \
  } while (false)

namespace moiety::registry {

/// Runs `body` in a child process, which exits with what it returns. Gives the child's id.
inline pid_t in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child != 0) return child;
  _exit(body());
}

inline int wait_for(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

class RegistryTest : public testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() {
    auto opened = Registry::open(path, OpenMode::create);
    ASSERT_OK(opened);
    registry.emplace(std::move(*opened));
  }
  /// Runs a child to its end and gives its wait status. The registry is closed meanwhile: a connection must not cross a fork,
  /// since SQLite keeps its locks' state in memory.
  int run_child(const std::function<int()>& body) {
    registry.reset();
    const int status = wait_for(in_child(body));
    open();
    return status;
  }
  Database& database() { return registry->connection().database; }
  std::int64_t count(const std::string& sql) {
    const auto value = database().integer(sql);
    EXPECT_TRUE(value) << value.error().message;
    return value && *value ? **value : -1;
  }

  TemporaryFolder folder;
  const std::string path = folder / "moiety.db";
  std::optional<Registry> registry;
};

/// A study with a pinned `pretrained`, and `tuned` and `score` for each arm and seed.
struct StudySketch {
  std::string id = "01STUDY0000000000000000000", name = "sketch", baseline = "dense";
  std::vector<std::string> arms = {"dense", "split"};
  int seeds = 3;
  /// Final metrics of `score`; nothing leaves the stage unfinished.
  std::function<std::optional<std::vector<MetricRow>>(const std::string& arm, int seed)> metrics;
  std::function<std::string(const std::string& arm, int seed)> group = [](const std::string&, int) { return std::string(); };
  std::function<void(StageRow&, const std::string& arm, int seed)> change_tuned = [](StageRow&, const std::string&, int) {};
  std::function<void(AttemptRow&, const std::string& arm, int seed)> change_attempt = [](AttemptRow&, const std::string&, int) {};

  static std::string stage_id(const std::string& stage, const std::string& arm, int seed) {
    return stage == "pretrained" ? sha256("pretrained") : sha256(stage + arm + std::to_string(seed));
  }
  static std::string run_id(const std::string& arm, int seed) { return sha256("run" + arm + std::to_string(seed)).substr(0, 26); }

  void write(Registry& registry) const {
    StudyRow study;
    study.id = id;
    study.name = name;
    study.baseline = baseline;
    study.recipe_hash = sha256(name);
    study.recipe_path = "recipes/sketch.toml";
    study.raw_text = "[recipe]\nname = \"sketch\"\n\n[stage.pretrained]\ndo = \"pretrain\"\n\n[stage.tuned]\ndo = \"finetune\"\n";
    study.seeds = seeds;
    std::vector<ArmRow> rows;
    for (std::size_t i = 0; i < arms.size(); ++i) rows.push_back({arms[i], "{}", static_cast<int>(i)});
    ASSERT_OK(registry.begin_study(study, rows, {}));
    ASSERT_OK(registry.declare_metrics({{"accuracy", "", 1, ""}, {"perplexity", "", -1, ""}, {"loss", "nat", -1, ""}}));
    for (const auto& arm : arms) {
      for (int seed = 1; seed <= seeds; ++seed) write_run(registry, arm, seed);
    }
  }

  void write_run(Registry& registry, const std::string& arm, int seed) const {
    StageRow pretrained;
    pretrained.id = stage_id("pretrained", arm, seed);
    pretrained.name = "pretrained";
    pretrained.verb = "pretrain";
    pretrained.config = {{"seed", 1}, {"budget", {{"amount", 1000}, {"unit", "tokens"}}}};
    pretrained.pinned = true;
    pretrained.seed = 1;
    StageRow tuned;
    tuned.id = stage_id("tuned", arm, seed);
    tuned.name = "tuned";
    tuned.verb = "finetune";
    tuned.config = {{"learning_rate", 0.001}, {"method", arm}};
    tuned.seed = seed;
    tuned.inputs = {{"from", pretrained.id}};
    change_tuned(tuned, arm, seed);
    StageRow score;
    score.id = stage_id("score", arm, seed);
    score.name = "score";
    score.verb = "evaluate";
    score.seed = seed;
    score.inputs = {{"from", tuned.id}};
    for (const auto& stage : {pretrained, tuned, score}) ASSERT_OK(registry.add_stage(stage));
    ASSERT_OK(registry.add_run(id, {run_id(arm, seed),
                                    arm,
                                    seed,
                                    {{"pretrained", pretrained.id}, {"tuned", tuned.id}, {"score", score.id}},
                                    group(arm, seed)}));
    const auto rows = metrics ? metrics(arm, seed) : std::nullopt;
    if (!rows) return;
    for (const auto& stage : {pretrained, tuned, score}) {
      if (registry.stage_state(stage.id).value_or("") == "done") continue;  // the pinned one, done for an earlier run
      AttemptRow attempt;
      attempt.stage_id = stage.id;
      attempt.study_id = id;
      change_attempt(attempt, arm, seed);
      const auto key = registry.begin_attempt(attempt);
      ASSERT_OK(key);
      if (stage.name == "score") ASSERT_OK(registry.write_metrics(stage.id, *rows));
      AttemptEnd end;
      end.state = "done";
      ASSERT_OK(registry.end_attempt(*key, end));
    }
  }
};

/// Holds children back until the parent lets all go at once.
class Gate {
 public:
  Gate() { EXPECT_EQ(pipe(ends_), 0); }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void wait() {
    close(ends_[1]);
    char byte = 0;
    while (read(ends_[0], &byte, 1) > 0) {
    }
  }
  void open() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  int ends_[2] = {-1, -1};
};

/// A child's failure is told on standard error: its assertions would not reach the parent.
template <class T>
bool child_ok(const Result<T>& result) {
  if (!result) fprintf(stderr, "child: %s | %s\n", result.error().message.c_str(), result.error().hint.c_str());
  return static_cast<bool>(result);
}

}  // namespace moiety::registry

#endif  // MOIETY_REGISTRY_TEST_SUPPORT_H_
