// Opening a file: new, old, foreign, damaged, locked, on a network, gone.
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "registry/registry.h"
#include "registry/report.h"
#include "registry/test_support.h"

namespace moiety::registry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Open, a_missing_file_is_created_and_said_so) {
  TemporaryFolder folder;
  const std::string path = folder / "new/folder/moiety.db";
  auto registry = Registry::open(path, OpenMode::create);
  ASSERT_OK(registry);
  EXPECT_THAT(registry->notices(), ElementsAre("created an empty registry: " + path));
  const auto text = runs_text(*registry, "", Format::table);
  ASSERT_OK(text);
  EXPECT_EQ(*text, "no runs yet: `moiety run RECIPE` starts some\n");
  auto again = Registry::open(path, OpenMode::create);
  ASSERT_OK(again);
  EXPECT_THAT(again->notices(), IsEmpty());
}

TEST(Open, a_missing_file_is_an_error_for_those_that_do_not_create) {
  TemporaryFolder folder;
  const auto reader = Registry::open(folder / "none.db", OpenMode::read_only);
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().kind, ErrorKind::usage);
  EXPECT_THAT(reader.error().message, HasSubstr("there is no registry at"));
  EXPECT_THAT(reader.error().hint, HasSubstr("--registry"));
  EXPECT_FALSE(std::filesystem::exists(folder / "none.db"));
  const auto writer = Registry::open(folder / "none.db", OpenMode::update);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().message, reader.error().message);
  EXPECT_FALSE(std::filesystem::exists(folder / "none.db"));
}

TEST(Open, a_file_that_vanished_during_a_run_is_a_problem_of_the_machine) {
  TemporaryFolder folder;
  const std::string path = folder / "moiety.db";
  ASSERT_OK(Registry::open(path, OpenMode::create));
  std::filesystem::remove(path);
  const auto check = [&](const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::environment);
    EXPECT_EQ(error.message, "the registry " + path + " vanished: it was there when the run began");
    EXPECT_THAT(error.hint, HasSubstr("run the same command again"));
  };
  const auto worker = Registry::open(path, OpenMode::existing);
  ASSERT_FALSE(worker);
  check(worker.error());
  const auto writer = MetricWriter::open(path, "stage", 1);
  ASSERT_FALSE(writer);
  check(writer.error());
  ASSERT_OK(write_file(path, ""));
  const auto emptied = Registry::open(path, OpenMode::existing);
  ASSERT_FALSE(emptied);
  check(emptied.error());
}

TEST(Open, an_empty_file_stays_empty_when_it_is_only_read) {
  TemporaryFolder folder;
  ASSERT_OK(write_file(folder / "empty.db", ""));
  const auto registry = Registry::open(folder / "empty.db", OpenMode::read_only);
  ASSERT_FALSE(registry);
  EXPECT_THAT(registry.error().message, HasSubstr("there is no registry at"));
  EXPECT_EQ(*read_file(folder / "empty.db"), "");
}

TEST(Open, a_newer_file_is_refused_and_left_byte_for_byte) {
  TemporaryFolder folder;
  const std::string path = folder / "newer.db";
  {
    auto registry = Registry::open(path, OpenMode::create);
    ASSERT_OK(registry);
    ASSERT_OK(registry->connection().database.script("PRAGMA user_version = 99"));
  }
  const auto before = sha256_of_file(path);
  ASSERT_OK(before);
  for (const auto mode : {OpenMode::create, OpenMode::existing, OpenMode::read_only}) {
    const auto registry = Registry::open(path, mode);
    ASSERT_FALSE(registry);
    EXPECT_EQ(registry.error().kind, ErrorKind::environment);
    EXPECT_THAT(registry.error().message, HasSubstr("version 99"));
    EXPECT_EQ(*sha256_of_file(path), *before);
    EXPECT_NE(access((path + "-wal").c_str(), F_OK), 0) << "no journal beside it either";
  }
}

TEST(Migration, an_older_file_keeps_verdicts_their_runs_and_what_was_measured) {
  TemporaryFolder folder;
  const std::string path = folder / "moiety.db";
  {
    auto database = Database::open(path, Database::Access::create);
    ASSERT_OK(database);
    const std::vector<Migration> old(migrations().begin(), migrations().begin() + 2);
    std::vector<std::string> notices;
    ASSERT_OK(migrate(*database, old, notices));
    ASSERT_OK(database->script(R"sql(
      INSERT INTO recipe(hash, name, resolved_text) VALUES('r', 'n', '');
      INSERT INTO study(key, id, recipe, name, about, raw_text, recipe_path, baseline, seeds, confidence, state, started, host,
        host_build_id, git_commit, git_dirty, git_diff) VALUES(1, 's', 'r', 'n', '', '', '', 'a', 3, 0.95, 'done', 1, 'h', '', '', 0, '');
      INSERT INTO arm(study, name, position, patch_text) VALUES(1, 'a', 0, '');
      INSERT INTO run(number, id, study, arm, seed, unit, config_hash, created) VALUES(4, 'run', 1, 'a', 1, '', '', 1);
      INSERT INTO claim(study, id, position, that, source, published) VALUES(1, 'C', 0, 'x', '', '');
      INSERT INTO verdict(key, study, claim, position, statement, verdict, reason, effect, n, unit, decided)
        VALUES(7, 1, 'C', 0, '', 'refuted', 'why', 0.5, 3, 'share', 9);
      INSERT INTO verdict_run VALUES(7, 4);
      INSERT INTO stage(key, id, described, name, verb, config, config_hash, seed, pinned, corpus_hash, task_hash, state, created)
        VALUES(5, 'e', 1, 'score', 'evaluate', '{}', '', 0, 0, '', '', 'done', 1);
      INSERT INTO run_stage(run, position, name, stage, labels, title) VALUES(4, 0, 'score', 5, '{}', 'score');
      INSERT INTO metric_name VALUES(1, 'accuracy', 'share', 1, '');
      INSERT INTO metric_summary VALUES(5, 1, 1, 1, 0, 0, 0.5, 0, 0, 0.5, 0, 0.5, 0, 0.5, 0);)sql"));
  }
  auto registry = Registry::open(path, OpenMode::create);
  ASSERT_OK(registry);
  auto& database = registry->connection().database;
  EXPECT_EQ(**database.text("SELECT verdict || ' ' || effect || ' ' || runs || ' ' || adjusted FROM v_claims"), "refuted 0.5 4 ");
  EXPECT_EQ(**database.text("SELECT arm || ' ' || value FROM v_final"), "a 0.5") << "what no choice is made of is reported";
  EXPECT_EQ(**database.integer("SELECT count(*) FROM pragma_foreign_key_check"), 0);
  EXPECT_EQ(**database.integer("SELECT count(*) FROM sqlite_master WHERE name LIKE '%_v3%' OR sql LIKE '%_v3%'"), 0);
}

TEST(Open, another_programs_database_and_other_files_are_refused_untouched) {
  TemporaryFolder folder;
  const std::string foreign = folder / "foreign.db";
  {
    auto database = Database::open(foreign, Database::Access::create);
    ASSERT_OK(database);
    ASSERT_OK(database->script("CREATE TABLE theirs(x)"));
  }
  const std::string text = folder / "text.db";
  ASSERT_OK(write_file(text, std::string(5000, 'x')));
  for (const auto& path : {foreign, text}) {
    const auto before = sha256_of_file(path);
    const auto registry = Registry::open(path, OpenMode::create);
    ASSERT_FALSE(registry);
    EXPECT_EQ(registry.error().kind, ErrorKind::environment);
    EXPECT_THAT(registry.error().message, HasSubstr("not a Moiety registry"));
    EXPECT_EQ(*sha256_of_file(path), *before);
  }
}

TEST(Open, what_is_no_regular_file_is_refused_at_once) {
  TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("loop", folder / "loop");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {folder / "pipe", " is not a regular file"},
      {"/dev/null", " is not a regular file"},
      {folder.path(), " is a folder, not a registry"},
      {folder / "loop", " cannot be looked at: Too many levels of symbolic links"}};
  for (const auto& [path, problem] : cases) {
    for (const auto mode : {OpenMode::create, OpenMode::existing, OpenMode::read_only}) {
      const auto registry = Registry::open(path, mode);
      ASSERT_FALSE(registry) << path;
      EXPECT_EQ(registry.error().kind, ErrorKind::environment) << path;
      EXPECT_EQ(registry.error().message, path + problem);
      EXPECT_THAT(registry.error().hint, HasSubstr("--registry"));
    }
  }
}

TEST(Open, an_unwritable_place_is_an_environment_error) {
  TemporaryFolder folder;
  ASSERT_OK(write_file(folder / "file", "x"));
  const auto registry = Registry::open(folder / "file/moiety.db", OpenMode::create);
  ASSERT_FALSE(registry);
  EXPECT_EQ(registry.error().kind, ErrorKind::environment);
}

TEST(Open, the_connection_has_the_settings_that_keep_rows) {
  TemporaryFolder folder;
  auto registry = Registry::open(folder / "moiety.db", OpenMode::create);
  ASSERT_OK(registry);
  auto& database = registry->connection().database;
  EXPECT_EQ(**database.text("PRAGMA journal_mode"), "wal");
  EXPECT_EQ(**database.integer("PRAGMA foreign_keys"), 1);
  EXPECT_EQ(**database.integer("PRAGMA synchronous"), 1);
  EXPECT_EQ(database.integer("PRAGMA mmap_size")->value_or(0), 0);
  EXPECT_EQ(
      **database.integer("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%STRICT%' AND name NOT LIKE "
                         "'sqlite_%'"),
      0);
}

TEST(Open, T01_a_locked_file_is_waited_for_and_then_named) {
  TemporaryFolder folder;
  const std::string path = folder / "moiety.db";
  Gate gate;
  const pid_t child = in_child([&] {
    gate.wait();
    auto third = Registry::open(path, OpenMode::existing);
    return child_ok(third) && child_ok(third->declare_metrics({{"loss", "nat", -1, ""}})) ? 0 : 1;
  });
  auto first = Registry::open(path, OpenMode::create);
  auto second = Registry::open(path, OpenMode::existing);
  ASSERT_OK(first);
  ASSERT_OK(second);
  ASSERT_OK(first->connection().database.execute("BEGIN IMMEDIATE"));
  auto& waiting = second->connection().database;
  waiting.set_patience(-1);
  const auto refused = waiting.transaction([] { return Status(); });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::environment);
  EXPECT_THAT(refused.error().message, HasSubstr("locked"));
  ASSERT_OK(waiting.integer("SELECT count(*) FROM run"));  // readers never wait
  // The child usually has to wait; it succeeds either way.
  gate.open();
  usleep(50'000);
  ASSERT_OK(first->connection().database.execute("COMMIT"));
  EXPECT_EQ(wait_for(child), 0);
  ASSERT_OK(waiting.transaction([] { return Status(); }));
}

class NetworkFilesystem : public testing::Test {
 protected:
  void TearDown() override { replace_network_filesystem(nullptr); }
  TemporaryFolder folder;
  const std::string path = folder / "moiety.db";
};

TEST_F(NetworkFilesystem, T04_a_network_file_system_gets_the_rollback_journal_and_one_notice) {
  replace_network_filesystem([](const std::string&) { return std::string("nfs"); });
  {
    auto registry = Registry::open(path, OpenMode::create);
    ASSERT_OK(registry);
    EXPECT_EQ(**registry->connection().database.text("PRAGMA journal_mode"), "delete");
    ASSERT_EQ(registry->notices().size(), 2U);
    EXPECT_THAT(registry->notices()[1], HasSubstr("nfs"));
    EXPECT_THAT(registry->notices()[1], HasSubstr("MOIETY_DB"));
    StudySketch().write(*registry);
    // The writer's connection as well.
    auto writer = MetricWriter::open(path, StudySketch::stage_id("tuned", "dense", 1), 0);
    ASSERT_OK(writer);
    (*writer)->log({"loss", {}, 1, 1.0});
    ASSERT_OK((*writer)->flush());
    EXPECT_NE(access((path + "-wal").c_str(), F_OK), 0);
    EXPECT_NE(access((path + "-shm").c_str(), F_OK), 0);
  }
  auto again = Registry::open(path, OpenMode::existing);
  ASSERT_OK(again);
  EXPECT_THAT(again->notices(), IsEmpty()) << "said once";
}

TEST_F(NetworkFilesystem, T04_a_file_that_moved_there_leaves_wal_and_comes_back) {
  ASSERT_OK(Registry::open(path, OpenMode::create));
  replace_network_filesystem([](const std::string&) { return std::string("lustre"); });
  {
    auto moved = Registry::open(path, OpenMode::existing);
    ASSERT_OK(moved);
    EXPECT_EQ(**moved->connection().database.text("PRAGMA journal_mode"), "delete");
    ASSERT_EQ(moved->notices().size(), 1U);
    EXPECT_THAT(moved->notices()[0], HasSubstr("lustre"));
  }
  replace_network_filesystem(nullptr);
  auto back = Registry::open(path, OpenMode::existing);
  ASSERT_OK(back);
  EXPECT_EQ(**back->connection().database.text("PRAGMA journal_mode"), "wal");
}

}  // namespace
}  // namespace moiety::registry
