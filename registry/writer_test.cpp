// The metric writer: what it stores, and what it does when the disk is full.
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <cmath>
#include <limits>

#include "registry/report.h"
#include "registry/test_support.h"

namespace moiety::registry {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

class Writer : public RegistryTest {
 protected:
  void SetUp() override {
    RegistryTest::SetUp();
    sketch.write(*registry);
  }
  StudySketch sketch;
  const std::string stage = StudySketch::stage_id("tuned", "dense", 1);
};

TEST_F(Writer, T09_nan_and_infinities_are_stored_and_exported_and_counted) {
  auto writer = MetricWriter::open(path, stage, 0);
  ASSERT_OK(writer);
  const std::vector<double> values = {1.5, nan, infinity, -infinity, std::numeric_limits<double>::denorm_min()};
  for (std::size_t i = 0; i < values.size(); ++i) (*writer)->log({"loss", {}, static_cast<std::int64_t>(i), values[i]});
  ASSERT_OK((*writer)->flush());
  const auto rows = registry->series(stage);
  ASSERT_OK(rows);
  ASSERT_EQ(rows->size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE((*rows)[i].value == values[i] || (std::isnan(values[i]) && std::isnan((*rows)[i].value))) << i;
  }
  EXPECT_EQ(count("SELECT group_concat(nonfinite, '') FROM (SELECT nonfinite FROM metric ORDER BY step)"), 1230);
  EXPECT_EQ(count("SELECT n_nonfinite FROM metric_summary"), 3);
  EXPECT_EQ(count("SELECT min_step FROM metric_summary"), 4);
  EXPECT_EQ(count("SELECT max_step FROM metric_summary"), 0);

  const auto csv = sql_text(*registry, "SELECT step, value FROM metric ORDER BY step LIMIT 4", Format::csv);
  ASSERT_OK(csv);
  EXPECT_EQ(*csv, "step,value\n0,1.5\n1,nan\n2,inf\n3,-inf\n");
  const auto json = sql_text(*registry, "SELECT value FROM metric WHERE step IN (1, 3) ORDER BY step", Format::json);
  ASSERT_OK(json);
  EXPECT_EQ(nlohmann::json::parse(*json), nlohmann::json::parse(R"([{"value":"nan"},{"value":"-inf"}])")) << "still valid JSON";
}

TEST_F(Writer, a_null_that_an_outer_join_made_is_no_nan) {
  ASSERT_OK(registry->write_metrics(stage, {{"loss", {}, 0, nan}}));
  const auto missing = sql_text(*registry, "SELECT m.value FROM label LEFT JOIN metric AS m ON m.step = 99", Format::csv);
  ASSERT_OK(missing);
  EXPECT_EQ(*missing, "value\n\n");
}

TEST_F(Writer, rows_written_again_replace_and_the_summary_stays_right) {
  std::vector<MetricRow> rows;
  for (int step = 1; step <= 10; ++step) rows.push_back({"loss", {}, step, 10.0 - step});
  ASSERT_OK(registry->write_metrics(stage, rows));
  // A resumed stage repeats steps 6 to 10 and goes on.
  rows.erase(rows.begin(), rows.begin() + 5);
  rows.push_back({"loss", {}, 11, -5});
  rows.push_back({"loss", {{"set", "valid"}}, 11, 3});
  ASSERT_OK(registry->write_metrics(stage, rows));
  EXPECT_EQ(count("SELECT count(*) FROM metric"), 12);
  EXPECT_EQ(count("SELECT n FROM metric_summary WHERE label = 1"), 11);
  EXPECT_EQ(count("SELECT last FROM metric_summary WHERE label = 1"), -5);
  EXPECT_EQ(count("SELECT max FROM metric_summary WHERE label = 1"), 9);
  const auto final = registry->final_metrics(stage);
  ASSERT_OK(final);
  ASSERT_EQ(final->size(), 2U);
  EXPECT_EQ((*final)[0].labels.at("set"), "valid");
  EXPECT_TRUE((*final)[1].labels.empty());
}

TEST_F(Writer, rows_out_of_order_in_one_batch_are_summarised_by_step) {
  ASSERT_OK(registry->write_metrics(stage, {{"loss", {}, 5, 50}, {"loss", {}, 2, 20}, {"loss", {}, 2, 21}}));
  EXPECT_EQ(count("SELECT n FROM metric_summary"), 2);
  EXPECT_EQ(count("SELECT first FROM metric_summary"), 21);
  EXPECT_EQ(count("SELECT last FROM metric_summary"), 50);
}

TEST_F(Writer, thousands_of_rows_arrive_in_order_and_the_destructor_writes_the_rest) {
  {
    auto writer = MetricWriter::open(path, stage, 0);
    ASSERT_OK(writer);
    for (int step = 0; step < 20'000; ++step) (*writer)->log({"loss", {}, step, step * 0.25});
  }
  const auto rows = registry->series(stage);
  ASSERT_OK(rows);
  ASSERT_EQ(rows->size(), 20'000U);
  for (std::size_t i = 0; i < rows->size(); ++i) ASSERT_EQ((*rows)[i].value, static_cast<double>(i) * 0.25);
}

TEST_F(Writer, names_its_process_in_the_attempt) {
  AttemptRow attempt;
  attempt.stage_id = stage;
  attempt.pid = 1;
  const auto key = registry->begin_attempt(attempt);
  ASSERT_OK(key);
  ASSERT_OK(MetricWriter::open(path, stage, *key));
  EXPECT_EQ(count("SELECT pid FROM attempt"), getpid());
}

TEST_F(Writer, an_unknown_stage_is_an_error) {
  const auto writer = MetricWriter::open(path, "nonesuch", 0);
  ASSERT_FALSE(writer);
  EXPECT_THAT(writer.error().message, testing::HasSubstr("no stage nonesuch is registered"));
}

/// Fills the disk while a stage writes, checks what the writer says, makes room, and checks that nothing is lost. Returns 0 when
/// all is as it should be, else the number of the step that was not. Runs in a child.
int write_until_full(const std::string& path, const std::string& stage, const std::function<void()>& make_full,
                     const std::function<void()>& make_room) {
  auto writer = MetricWriter::open(path, stage, 0);
  if (!child_ok(writer)) return 2;
  std::int64_t step = 0;
  const auto log_some = [&] {
    for (int i = 0; i < 2000; ++i, ++step) (*writer)->log({"loss", {}, step, static_cast<double>(step)});
  };
  log_some();
  if (!child_ok((*writer)->flush())) return 3;
  const std::int64_t acknowledged = step;
  make_full();
  Status status;
  for (int i = 0; i < 100 && status; ++i) {
    log_some();
    status = (*writer)->flush();
  }
  if (status) return 4;
  if (status.error().kind != ErrorKind::environment) return 5;
  if (status.error().hint.empty()) return 6;
  {
    auto reader = Registry::open(path, OpenMode::read_only);
    if (!child_ok(reader)) return 7;
    if (**reader->connection().database.integer("SELECT count(*) FROM metric") < acknowledged) return 8;
  }
  make_room();
  // Rows that could not be written were kept: they come with the next flush.
  if (!child_ok((*writer)->flush())) return 9;
  auto reader = Registry::open(path, OpenMode::read_only);
  if (!child_ok(reader)) return 10;
  if (**reader->connection().database.integer("SELECT count(*) FROM metric") != step) return 11;
  if (**reader->connection().database.integer("SELECT n FROM metric_summary") != step) return 12;
  return **reader->connection().database.text("PRAGMA integrity_check") == "ok" ? 0 : 13;
}

TEST_F(Writer, a_file_size_limit_is_an_environment_error_and_nothing_is_lost) {
  registry.reset();
  const pid_t child = in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const auto limit = [](rlim_t bytes) {
      struct rlimit both {};
      getrlimit(RLIMIT_FSIZE, &both);
      both.rlim_cur = bytes;
      setrlimit(RLIMIT_FSIZE, &both);
    };
    return write_until_full(
        path, stage, [&] { limit(300'000); }, [&] { limit(RLIM_INFINITY); });
  });
  EXPECT_EQ(WEXITSTATUS(wait_for(child)), 0);
}

TEST_F(Writer, a_full_disk_is_an_environment_error_and_nothing_is_lost) {
  registry.reset();
  constexpr int not_permitted = 77;
  const pid_t child = in_child([&] {
    // A small file system of the child's own; it goes with the child.
    const std::string disk = folder / "disk";
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 || !make_folders(disk) ||
        mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=4m") != 0) {
      return not_permitted;
    }
    const std::string there = disk + "/moiety.db";
    {
      auto fresh = Registry::open(there, OpenMode::create);
      if (!child_ok(fresh)) return 1;
      sketch.write(*fresh);
    }
    const std::string filler = disk + "/filler";
    return write_until_full(
        there, stage,
        [&] {
          FILE* file = fopen(filler.c_str(), "w");
          const std::string block(4096, 'x');
          while (file != nullptr && fwrite(block.data(), 1, block.size(), file) == block.size() && fflush(file) == 0) {
          }
          if (file != nullptr) fclose(file);
        },
        [&] { remove(filler.c_str()); });
  });
  const int code = WEXITSTATUS(wait_for(child));
  if (code == not_permitted) GTEST_SKIP() << "may not mount a small file system here; the file size limit stands in for it";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace moiety::registry
