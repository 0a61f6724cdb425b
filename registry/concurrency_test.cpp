// Many processes and one file.
#include <fcntl.h>
#include <signal.h>

#include <random>
#include <set>

#include "registry/report.h"
#include "registry/test_support.h"

namespace moiety::registry {
namespace {

class Concurrency : public RegistryTest {};

TEST_F(Concurrency, T01_eight_processes_write_while_one_reads_and_no_row_is_lost) {
  constexpr int processes = 8, transactions = 100, rows = 20;
  StudySketch sketch;
  sketch.arms = {"dense"};
  sketch.seeds = processes;
  sketch.write(*registry);
  registry.reset();

  Gate gate;
  std::vector<pid_t> writers;
  for (int seed = 1; seed <= processes; ++seed) {
    writers.push_back(in_child([&] {
      gate.wait();
      auto mine = Registry::open(path, OpenMode::existing);
      if (!child_ok(mine)) return 1;
      for (int i = 0; i < transactions; ++i) {
        std::vector<MetricRow> batch;
        for (int j = 0; j < rows; ++j)
          batch.push_back({"loss", {{"part", std::to_string(j % 2)}}, i * rows + j, seed + i * 0.001});
        if (!child_ok(mine->write_metrics(StudySketch::stage_id("tuned", "dense", seed), batch))) return 1;
      }
      return 0;
    }));
  }
  int done[2];
  ASSERT_EQ(pipe(done), 0);
  const pid_t reader = in_child([&] {
    close(done[1]);
    gate.wait();
    auto mine = Registry::open(path, OpenMode::read_only);
    if (!child_ok(mine)) return 1;
    char byte = 0;
    std::int64_t before = 0;
    // Reads until the parent closes the pipe; counts never fall and never show half a transaction.
    while (fcntl(done[0], F_SETFL, O_NONBLOCK) == 0 && read(done[0], &byte, 1) != 0) {
      const auto seen = mine->connection().database.integer("SELECT count(*) FROM metric");
      if (!child_ok(seen) || **seen < before || **seen % rows != 0) return 1;
      before = **seen;
    }
    return 0;
  });
  close(done[0]);
  gate.open();
  for (const auto writer : writers) EXPECT_EQ(wait_for(writer), 0);
  close(done[1]);
  EXPECT_EQ(wait_for(reader), 0);

  auto after = Registry::open(path, OpenMode::existing);
  ASSERT_OK(after);
  auto& database = after->connection().database;
  EXPECT_EQ(**database.integer("SELECT count(*) FROM metric"), processes * transactions * rows);
  EXPECT_EQ(**database.integer("SELECT sum(n) FROM metric_summary"), processes * transactions * rows);
  EXPECT_EQ(**database.text("PRAGMA integrity_check"), "ok");
}

TEST(Migration, T02_eight_processes_open_a_fresh_file_at_once) {
  TemporaryFolder folder;
  const std::string path = folder / "fresh.db";
  Gate gate;
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(in_child([&] {
      gate.wait();
      return child_ok(Registry::open(path, OpenMode::create)) ? 0 : 1;
    }));
  }
  gate.open();
  for (const auto child : children) EXPECT_EQ(wait_for(child), 0);
  auto registry = Registry::open(path, OpenMode::existing);
  ASSERT_OK(registry);
  EXPECT_EQ(**registry->connection().database.text("PRAGMA journal_mode"), "wal");
  EXPECT_EQ(**registry->connection().database.integer("PRAGMA user_version"), migrations().back().version);
}

TEST(Migration, T02_eight_processes_migrate_an_old_file_at_once) {
  TemporaryFolder folder;
  const std::string path = folder / "old.db";
  {
    auto old = Registry::open(path, OpenMode::create);
    ASSERT_OK(old);
    StudySketch sketch;
    sketch.write(*old);
  }
  auto steps = migrations();
  const int old_version = steps.back().version;
  // A step that fails when it runs twice: "duplicate column name".
  steps.push_back({old_version + 1, "ALTER TABLE study ADD COLUMN note TEXT;"});
  Gate gate;
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(in_child([&] {
      gate.wait();
      std::vector<std::string> notices;
      const auto database = open_database(path, OpenMode::existing, steps, notices);
      if (!child_ok(database)) return 1;
      return static_cast<int>(notices.size()) == 1 ? 10 : notices.empty() ? 0 : 1;
    }));
  }
  gate.open();
  int migrated = 0;
  for (const auto child : children) {
    const int code = WEXITSTATUS(wait_for(child));
    EXPECT_TRUE(code == 0 || code == 10) << code;
    migrated += code == 10 ? 1 : 0;
  }
  EXPECT_EQ(migrated, 1) << "one process migrates and says so";

  std::vector<std::string> notices;
  auto database = open_database(path, OpenMode::existing, steps, notices);
  ASSERT_OK(database);
  EXPECT_EQ(**database->integer("SELECT count(*) FROM run"), 6);
  EXPECT_EQ(**database->integer("SELECT count(*) FROM pragma_table_info('study') WHERE name = 'note'"), 1);
  EXPECT_EQ(**database->integer("PRAGMA user_version"), old_version + 1);

  // The backup is the old file: the old program still opens it.
  auto backup = Registry::open(path + ".v" + std::to_string(old_version) + ".backup", OpenMode::existing);
  ASSERT_OK(backup);
  EXPECT_EQ(**backup->connection().database.integer("SELECT count(*) FROM run"), 6);
}

TEST_F(Concurrency, T05_a_hundred_processes_get_unique_ids_and_numbers) {
  StudySketch sketch;
  sketch.seeds = 0;
  sketch.write(*registry);
  registry.reset();
  Gate gate;
  std::vector<pid_t> children;
  for (int i = 0; i < 100; ++i) {
    children.push_back(in_child([&] {
      gate.wait();
      auto mine = Registry::open(path, OpenMode::existing);
      if (!child_ok(mine)) return 1;
      RunRow run;
      run.id = new_ulid();
      run.arm = "dense";
      run.seed = i;
      return child_ok(mine->add_run(sketch.id, run)) ? 0 : 1;
    }));
  }
  gate.open();
  for (const auto child : children) EXPECT_EQ(wait_for(child), 0);
  auto after = Registry::open(path, OpenMode::existing);
  ASSERT_OK(after);
  std::set<std::string> ids;
  std::set<std::int64_t> numbers, seeds;
  ASSERT_OK(after->connection().database.each("SELECT id, number, seed FROM run", {}, [&](const Query& row) {
    ids.insert(row.text(0));
    numbers.insert(row.integer(1));
    seeds.insert(row.integer(2));
  }));
  EXPECT_EQ(ids.size(), 100U);
  EXPECT_EQ(numbers.size(), 100U);
  EXPECT_EQ(seeds.size(), 100U) << "no process lost its run";
  EXPECT_EQ(*numbers.begin(), 1);
  EXPECT_EQ(*numbers.rbegin(), 100) << "short numbers have no gaps";
}

TEST_F(Concurrency, T11_each_result_is_visible_to_others_when_its_write_returns) {
  StudySketch sketch;
  sketch.write(*registry);
  const auto stage = StudySketch::stage_id("score", "dense", 1);
  // The last of ten tasks crashes; the nine before it stay.
  const int status = run_child([&] {
    auto mine = Registry::open(path, OpenMode::existing);
    if (!child_ok(mine)) return 1;
    for (int task = 0; task < 9; ++task) {
      if (!child_ok(mine->write_metrics(stage, {{"accuracy", {{"task", std::to_string(task)}}, 0, 0.5 + task}}))) return 1;
    }
    raise(SIGKILL);
    return 1;
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto rows = registry->final_metrics(stage);
  ASSERT_OK(rows);
  ASSERT_EQ(rows->size(), 9U);
  EXPECT_EQ((*rows)[8].labels.at("task"), "8");
  EXPECT_EQ((*rows)[8].value, 8.5);
}

TEST_F(Concurrency, killed_at_random_moments_every_flushed_row_is_there) {
  StudySketch sketch;
  sketch.arms = {"dense"};
  sketch.seeds = 12;
  sketch.write(*registry);
  registry.reset();
  std::mt19937 random(7);
  for (int seed = 1; seed <= sketch.seeds; ++seed) {
    const auto stage = StudySketch::stage_id("tuned", "dense", seed);
    int acknowledged_pipe[2];
    ASSERT_EQ(pipe(acknowledged_pipe), 0);
    const pid_t child = in_child([&] {
      close(acknowledged_pipe[0]);
      auto writer = MetricWriter::open(path, stage, 0);
      if (!child_ok(writer)) return 1;
      for (std::int64_t step = 0;; ++step) {
        (*writer)->log({"loss", {}, step, static_cast<double>(step) * 0.5});
        if (step % 7 != 0) continue;
        if (!child_ok((*writer)->flush())) return 1;
        if (write(acknowledged_pipe[1], &step, sizeof step) != sizeof step) return 1;
      }
    });
    close(acknowledged_pipe[1]);
    std::int64_t acknowledged = -1;
    const auto acknowledgements = 1 + random() % 40;
    for (unsigned i = 0; i < acknowledgements; ++i) {
      ASSERT_EQ(read(acknowledged_pipe[0], &acknowledged, sizeof acknowledged), static_cast<ssize_t>(sizeof acknowledged));
    }
    usleep(random() % 3000);  // a moment anywhere between two commits; what is asserted does not depend on which
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_TRUE(WIFSIGNALED(wait_for(child)));
    std::int64_t more = 0;
    while (read(acknowledged_pipe[0], &more, sizeof more) == static_cast<ssize_t>(sizeof more)) acknowledged = more;
    close(acknowledged_pipe[0]);

    auto after = Registry::open(path, OpenMode::existing);
    ASSERT_OK(after);
    EXPECT_EQ(**after->connection().database.text("PRAGMA integrity_check"), "ok");
    const auto rows = after->series(stage);
    ASSERT_OK(rows);
    ASSERT_GT(static_cast<std::int64_t>(rows->size()), acknowledged);
    for (std::size_t i = 0; i < rows->size(); ++i) {
      ASSERT_EQ((*rows)[i].step, static_cast<std::int64_t>(i));
      ASSERT_EQ((*rows)[i].value, static_cast<double>(i) * 0.5);
    }
    EXPECT_EQ(**after->connection().database.integer(
                  "SELECT sum(n) FROM metric_summary JOIN stage ON stage.key = stage WHERE id = ?", {stage}),
              static_cast<std::int64_t>(rows->size()));
  }
}

}  // namespace
}  // namespace moiety::registry
