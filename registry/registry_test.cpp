// The states of stages, and attempts whose process is gone.
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
  EXPECT_EQ(count("SELECT count(*) FROM run_stage JOIN run ON run.number = run_stage.run WHERE seed = 9"), 1);
  run.stages.insert(run.stages.begin(), {"later", "later-id"});
  ASSERT_OK(registry->add_run(sketch.id, run));
  EXPECT_EQ(**database().text("SELECT group_concat(title) FROM run_stage JOIN run ON run.number = run_stage.run WHERE seed = 9"),
            "late,later")
      << "a stage that was not known before comes behind";
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
  verdict.verdict = "explored";
  verdict.adjusted = "";
  ASSERT_OK(registry->write_verdicts(study.id, {verdict}));
  verdict.verdict = "supported";
  verdict.adjusted = "undecided";
  ASSERT_OK(registry->write_verdicts(study.id, {verdict}));
  EXPECT_EQ(**database().text("SELECT verdict || ' ' || adjusted FROM v_claims WHERE claim = 'C-1'"), "supported undecided");
  verdict.runs = {"unknown"};
  EXPECT_FALSE(registry->write_verdicts(study.id, {verdict}));
  EXPECT_EQ(count("SELECT count(*) FROM verdict"), 1) << "a refused write leaves what was there";
}

}  // namespace
}  // namespace moiety::registry
