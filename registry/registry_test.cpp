// Opening a file, the states of stages, and attempts whose process is gone.
#include "registry/registry.h"

#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

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

class States : public RegistryTest {
 protected:
  void SetUp() override {
    RegistryTest::SetUp();
    sketch.write(*registry);
  }
  std::int64_t begin(const std::string& stage_id, std::int64_t pid = 0) {
    AttemptRow attempt;
    attempt.stage_id = stage_id;
    attempt.study_id = sketch.id;
    attempt.pid = pid;
    const auto key = registry->begin_attempt(attempt);
    EXPECT_TRUE(key) << key.error().message;
    return key.value_or(-1);
  }
  void end(std::int64_t attempt, const std::string& state) {
    AttemptEnd mark;
    mark.state = state;
    ASSERT_OK(registry->end_attempt(attempt, mark));
  }
  std::string state(const std::string& stage_id) { return registry->stage_state(stage_id).value_or("?"); }
  std::string run_state(int number) { return database().text("SELECT state FROM v_runs WHERE run = ?", {number})->value_or("?"); }

  StudySketch sketch;
  const std::string pretrained = StudySketch::stage_id("pretrained", "dense", 1);
  const std::string tuned = StudySketch::stage_id("tuned", "dense", 1);
  const std::string score = StudySketch::stage_id("score", "dense", 1);
};

TEST_F(States, a_runs_state_follows_its_stages) {
  EXPECT_EQ(run_state(1), "waiting");
  for (const auto& [stage, mark, expected] :
       std::vector<std::tuple<std::string, std::string, std::string>>{{pretrained, "running", "running"},
                                                                      {pretrained, "done", "waiting"},
                                                                      {tuned, "interrupted", "interrupted"},
                                                                      {tuned, "diverged", "diverged"},
                                                                      {score, "skipped", "diverged"},
                                                                      {tuned, "failed", "failed"},
                                                                      {tuned, "done", "skipped"},
                                                                      {score, "done", "done"}}) {
    ASSERT_OK(registry->set_stage_state(stage, mark));
    EXPECT_EQ(run_state(1), expected) << mark;
  }
  EXPECT_EQ(run_state(2), "waiting") << "shares the pretrained stage only";
  const auto bad = registry->set_stage_state(score, "finished");
  EXPECT_FALSE(bad) << "the states are a closed list";
}

TEST_F(States, T08_only_an_explicit_end_mark_gives_done) {
  const int status = run_child([&] {
    auto mine = Registry::open(path, OpenMode::existing);
    if (!child_ok(mine)) return 1;
    AttemptRow attempt;
    attempt.stage_id = tuned;
    const auto key = mine->begin_attempt(attempt);
    if (!child_ok(key) || !child_ok(MetricWriter::open(path, tuned, *key))) return 1;
    auto writer = MetricWriter::open(path, tuned, *key);
    (*writer)->log({"loss", {}, 1, 0.5});
    return child_ok((*writer)->flush()) ? 0 : 1;  // leaves without an end mark, and with exit code 0
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(state(tuned), "running");
  ASSERT_OK(registry->reap_dead_attempts());
  EXPECT_EQ(state(tuned), "interrupted") << "exit code 0 alone is not `done`";
  end(begin(tuned), "done");
  EXPECT_EQ(state(tuned), "done");
  AttemptEnd mark;
  mark.state = "finished";
  EXPECT_FALSE(registry->end_attempt(1, mark));
  EXPECT_FALSE(registry->end_attempt(4711, AttemptEnd{"done", 0, 0, "", "", "", "", 0, 0, 0, 0, 0}));
}

TEST_F(States, T07_a_dead_process_is_interrupted_and_a_living_one_is_not) {
  const int status = run_child([&] {
    auto mine = Registry::open(path, OpenMode::existing);
    AttemptRow attempt;
    attempt.stage_id = tuned;
    return child_ok(mine) && child_ok(mine->begin_attempt(attempt)) ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  begin(score, getpid());
  // No heartbeat for a long time says nothing on this host: a step may take hours.
  ASSERT_OK(database().execute("UPDATE attempt SET heartbeat = 0"));
  ASSERT_OK(registry->reap_dead_attempts());
  EXPECT_EQ(state(tuned), "interrupted");
  EXPECT_EQ(state(score), "running");
  EXPECT_EQ(count("SELECT count(*) FROM event WHERE source = 'registry'"), 1);
}

TEST_F(States, T07_a_late_report_is_accepted) {
  const pid_t child = in_child([] { return 0; });
  EXPECT_EQ(wait_for(child), 0);
  const auto attempt = begin(tuned, child);
  ASSERT_OK(registry->reap_dead_attempts());
  EXPECT_EQ(state(tuned), "interrupted");
  end(attempt, "done");
  EXPECT_EQ(state(tuned), "done");
}

TEST_F(States, T07_a_late_report_of_an_older_attempt_does_not_hide_a_newer_one) {
  const auto first = begin(tuned);
  const auto second = begin(tuned);
  end(first, "failed");
  EXPECT_EQ(state(tuned), "running");
  end(second, "done");
  EXPECT_EQ(state(tuned), "done");
}

TEST_F(States, T07_a_process_id_used_again_is_not_the_process) {
  begin(tuned, getpid());
  ASSERT_OK(database().execute("UPDATE attempt SET pid_start = '1'"));
  ASSERT_OK(registry->reap_dead_attempts());
  EXPECT_EQ(state(tuned), "interrupted");
}

TEST_F(States, T07_after_a_reboot_no_process_is_left) {
  begin(tuned, getpid());
  ASSERT_OK(database().execute("UPDATE attempt SET boot_id = 'before'"));
  ASSERT_OK(registry->reap_dead_attempts());
  EXPECT_EQ(state(tuned), "interrupted");
}

TEST_F(States, T07_another_host_is_left_alone_and_shown_as_stale) {
  begin(tuned, getpid());
  ASSERT_OK(database().execute("UPDATE attempt SET host = 'node17', pid = 999999999, heartbeat = ?",
                               {now_milliseconds() - 14 * 60'000}));
  ASSERT_OK(registry->reap_dead_attempts());
  EXPECT_EQ(state(tuned), "running");
  const auto runs = runs_text(*registry, "", Format::table);
  ASSERT_OK(runs);
  EXPECT_THAT(*runs, HasSubstr("stale (last seen 14 min ago on node17)"));
  EXPECT_THAT(*runs, testing::Not(HasSubstr("failed")));
  const auto show = show_text(*registry, "1", Format::table);
  ASSERT_OK(show);
  EXPECT_THAT(*show, HasSubstr("stale (last seen 14 min ago on node17)"));
}

TEST_F(States, a_stage_known_already_keeps_its_rows_and_its_state) {
  ASSERT_OK(registry->set_stage_state(tuned, "done"));
  StageRow again;
  again.id = tuned;
  again.name = "other-name";
  again.verb = "finetune";
  again.config = {{"learning_rate", 5}};
  ASSERT_OK(registry->add_stage(again));
  EXPECT_EQ(state(tuned), "done");
  EXPECT_EQ(**database().text("SELECT txt FROM v_params WHERE run = 1 AND path = 'learning_rate'"), "0.001");
}

TEST_F(States, parameters_are_typed_leaves) {
  StageRow stage;
  stage.id = "typed";
  stage.name = "typed";
  stage.config = nlohmann::json::parse(R"({"a":{"b":true},"k":[1,2.5],"t":"x","n":null,"e":[],"big":9007199254740993})");
  ASSERT_OK(registry->add_stage(stage));
  std::vector<std::string> rows;
  ASSERT_OK(database().each(
      "SELECT path, type, txt, ifnull(num, '-') FROM param WHERE stage = (SELECT key FROM stage WHERE id = 'typed')", {},
      [&](const Query& row) { rows.push_back(row.text(0) + " " + row.text(1) + " " + row.text(2) + " " + row.text(3)); }));
  EXPECT_THAT(
      rows, testing::UnorderedElementsAre("a.b bool true 1.0", "k[0] integer 1 1.0", "k[1] number 2.5 2.5", "t text x -",
                                          "n null null -", "e empty [] -", "big integer 9007199254740993 9.00719925474099e+15"));
}

TEST_F(States, a_run_may_come_before_the_stages_it_names) {
  RunRow run{"01RUNBEFORE000000000000000", "dense", 9, {{"late", "late-id"}}, ""};
  ASSERT_OK(registry->add_run(sketch.id, run));
  const auto before = database().text("SELECT config_hash FROM run WHERE seed = 9");
  StageRow late;
  late.id = "late-id";
  late.name = "late";
  late.verb = "evaluate";
  ASSERT_OK(registry->add_stage(late));
  EXPECT_NE(**database().text("SELECT config_hash FROM run WHERE seed = 9"), **before);
  EXPECT_EQ(**database().text("SELECT verb FROM stage WHERE id = 'late-id'"), "evaluate");
  ASSERT_OK(registry->add_run(sketch.id, run));
  EXPECT_EQ(count("SELECT count(*) FROM run WHERE seed = 9"), 1) << "adding a run again changes nothing";
}

TEST_F(States, a_run_has_a_stage_once_for_each_label_and_its_metrics_carry_them) {
  for (const char* id : {"score-2", "score-4"}) {
    StageRow stage;
    stage.id = id;
    stage.name = "score";
    stage.verb = "evaluate";
    ASSERT_OK(registry->add_stage(stage));
    ASSERT_OK(registry->write_metrics(id, {{"accuracy", {{"set", "test"}}, 0, 0.5}, {"seconds", {}, 0, 3}}));
  }
  RunRow run{
      "01RUNAXES00000000000000000", "dense", 8, {{"score", "score-2", {{"k", "2"}}}, {"score", "score-4", {{"k", "4"}}}}, ""};
  ASSERT_OK(registry->add_run(sketch.id, run));
  std::vector<std::string> rows;
  ASSERT_OK(database().each("SELECT metric, labels FROM v_final WHERE seed = 8 ORDER BY metric, labels", {},
                            [&](const Query& row) { rows.push_back(row.text(0) + " " + row.text(1)); }));
  EXPECT_EQ(rows, (std::vector<std::string>{R"(accuracy {"k":"2","set":"test"})", R"(accuracy {"k":"4","set":"test"})",
                                            R"(seconds {"k":"2"})", R"(seconds {"k":"4"})"}));
  EXPECT_EQ(**database().text("SELECT group_concat(title, ', ') FROM run_stage JOIN run ON number = run WHERE seed = 8"),
            "score [k=2], score [k=4]");
}

TEST_F(States, verdicts_replace_those_of_the_same_claim) {
  StudyRow study;
  study.id = "01CLAIMS000000000000000000";
  study.name = "claims";
  study.recipe_hash = "r";
  ASSERT_OK(registry->begin_study(study, {{"a", "", 0}}, {{"C-1", "accuracy(a) > 0.5", "", "", 0}}));
  VerdictRow verdict;
  verdict.claim_id = "C-1";
  verdict.verdict = "undecided";
  ASSERT_OK(registry->write_verdicts(study.id, {verdict}));
  verdict.verdict = "supported";
  verdict.effect = 0.25;
  verdict.runs = {StudySketch::run_id("dense", 1), StudySketch::run_id("dense", 2)};
  ASSERT_OK(registry->write_verdicts(study.id, {verdict}));
  EXPECT_EQ(count("SELECT count(*) FROM verdict"), 1);
  EXPECT_EQ(**database().text("SELECT verdict || ' ' || effect || ' ' || runs FROM v_claims WHERE claim = 'C-1'"),
            "supported 0.25 1 2");
  verdict.runs = {"unknown"};
  EXPECT_FALSE(registry->write_verdicts(study.id, {verdict}));
  EXPECT_EQ(count("SELECT count(*) FROM verdict"), 1) << "a refused write leaves what was there";
}

}  // namespace
}  // namespace moiety::registry
