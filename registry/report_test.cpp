// `moiety runs`, `show`, `logs`, `claims`.
#include "registry/report.h"

#include <signal.h>

#include <cmath>

#include "registry/test_support.h"

namespace moiety::registry {
namespace {

using testing::HasSubstr;
using testing::Not;

class Report : public RegistryTest {
 protected:
  std::string show(const std::string& run, Format format = Format::table) {
    const auto out = show_text(*registry, run, format);
    EXPECT_TRUE(out) << out.error().message;
    return out.value_or("");
  }
  void fail_tuned(const std::string& log = "") {
    AttemptRow attempt;
    attempt.stage_id = StudySketch::stage_id("tuned", "split", 1);
    attempt.study_id = sketch.id;
    attempt.log_path = log;
    const auto key = registry->begin_attempt(attempt);
    ASSERT_OK(key);
    AttemptEnd end;
    end.state = "failed";
    end.signal = SIGSEGV;
    end.error = "the worker crashed";
    end.component = "router/thrower@1";
    end.function = "route";
    end.stderr_tail = "step 17\nabout to route \x1b[31m\n";
    ASSERT_OK(registry->end_attempt(*key, end));
  }
  StudySketch sketch;
};

TEST_F(Report, T12_show_tells_how_a_run_failed) {
  sketch.write(*registry);
  fail_tuned("/logs/attempt-1.log");
  const auto text = show("4");  // split, seed 1
  EXPECT_THAT(text, HasSubstr("arm split · seed 1 · failed"));
  EXPECT_THAT(text, HasSubstr("stage tuned, attempt 1: failed by signal 11 (Segmentation fault)"));
  EXPECT_THAT(text, HasSubstr("in router/thrower@1, function route"));
  EXPECT_THAT(text, HasSubstr("error: the worker crashed"));
  EXPECT_THAT(text, HasSubstr("recipe: recipes/sketch.toml:7: [stage.tuned]"));
  EXPECT_THAT(text, HasSubstr("log: /logs/attempt-1.log"));
  EXPECT_THAT(text, HasSubstr("about to route \\x1b[31m")) << "its output never steers the terminal";
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  const auto json = nlohmann::json::parse(show("4", Format::json));
  EXPECT_EQ(json["attempts"][0]["signal"], 11);
  EXPECT_EQ(json["attempts"][0]["component"], "router/thrower@1");
}

TEST_F(Report, T12_a_log_is_kept_for_each_attempt) {
  sketch.write(*registry);
  const std::string first = folder / "attempt-1.log";
  const std::string second = folder / "attempt-2.log";
  std::string lines;
  for (int i = 1; i <= 30'000; ++i) lines += "line " + std::to_string(i) + "\n";
  ASSERT_OK(write_file(first, lines));
  fail_tuned(first);
  fail_tuned(second);  // was never written
  const auto text = logs_text(*registry, "4", 2);
  ASSERT_OK(text);
  EXPECT_THAT(*text, HasSubstr("== stage tuned, attempt 1 (failed): " + first + "\nline 29999\nline 30000\n"));
  EXPECT_THAT(*text, HasSubstr("== stage tuned, attempt 2 (failed): " + second + "\n(the file is gone"));
  EXPECT_THAT(*text, HasSubstr("step 17"));
  EXPECT_THAT(*text, Not(HasSubstr("line 29998")));
}

TEST_F(Report, show_prints_parameters_metrics_curve_and_builds) {
  sketch.metrics = [](const std::string& arm, int seed) {
    return std::vector<MetricRow>{{"accuracy", {{"set", "test"}}, 0, arm == "split" ? 0.5 + 0.1 * seed : 0.25}};
  };
  sketch.change_tuned = [](StageRow& stage, const std::string& arm, int) {
    if (arm == "split") stage.plugins = {{"router", {"router", "avg-k", "1", "0123456789abcdef", "/p/avg_k.moiety.so"}}};
  };
  sketch.change_attempt = [](AttemptRow& attempt, const std::string&, int) { attempt.torch_version = "1.13.1"; };
  sketch.write(*registry);
  std::vector<MetricRow> losses;
  for (int step = 1; step <= 300; ++step) losses.push_back({"loss", {}, step, 8.0 / step});
  ASSERT_OK(registry->write_metrics(StudySketch::stage_id("tuned", "split", 2), losses));
  const auto text = show("5");
  EXPECT_THAT(text, HasSubstr("done"));
  EXPECT_THAT(text, HasSubstr("parameters that differ from arm dense:"));
  EXPECT_THAT(text, testing::ContainsRegex("tuned +method +split +dense"));
  EXPECT_THAT(text, Not(testing::ContainsRegex("learning_rate")));
  EXPECT_THAT(text, HasSubstr("accuracy [set=test]"));
  EXPECT_THAT(text, HasSubstr("0.7"));
  EXPECT_THAT(text, HasSubstr("tuned loss: 8 to 0.02667 at step 300\n  █"));
  EXPECT_THAT(text, HasSubstr("router/avg-k@1"));
  EXPECT_THAT(text, HasSubstr("1.13.1"));
  EXPECT_THAT(text, HasSubstr("1 pinned"));
}

TEST_F(Report, a_run_is_found_by_number_id_prefix_or_suffix) {
  sketch.write(*registry);
  ASSERT_OK(database().execute("UPDATE run SET id = '01JABCDEFGHJKMNPQRSTVWXYZ7' WHERE number = 2"));
  for (const std::string name : {"2", "01JABCDEFGHJKMNPQRSTVWXYZ7", "01jabc", "wxyz7"}) {
    EXPECT_THAT(show(name), HasSubstr("run 2 ·")) << name;
  }
  const auto unknown = show_text(*registry, "999", Format::table);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::usage);
  EXPECT_THAT(unknown.error().message, HasSubstr("there is no run `999`"));
}

TEST_F(Report, runs_lists_states_and_measured_values_newest_last) {
  sketch.metrics = [](const std::string& arm, int seed) -> std::optional<std::vector<MetricRow>> {
    if (arm == "split" && seed == 3) return std::nullopt;
    return std::vector<MetricRow>{{"accuracy", {{"set", "test"}}, 0, 0.125 * seed},
                                  {"perplexity", {{"domain", "a"}}, 0, 10},
                                  {"perplexity", {{"domain", "b"}}, 0, seed == 2 ? std::nan("") : 1000}};
  };
  sketch.write(*registry);
  const auto text = runs_text(*registry, "", Format::csv);
  ASSERT_OK(text);
  EXPECT_THAT(*text, HasSubstr("run,id,study,arm,seed,state,accuracy [set=test],perplexity,age,note\n1,"));
  EXPECT_THAT(*text, HasSubstr(",sketch,dense,1,done,0.125,100"));
  EXPECT_THAT(*text, HasSubstr(",sketch,dense,2,done,0.25,nan,"));
  EXPECT_THAT(*text, HasSubstr(",sketch,split,3,waiting,,,"));
  EXPECT_LT(text->find("dense,1"), text->find("split,3"));
  const auto other = runs_text(*registry, "sketch", Format::table);
  ASSERT_OK(other);
  EXPECT_THAT(*other, HasSubstr("dense"));
  EXPECT_FALSE(runs_text(*registry, "nonesuch", Format::table));
}

TEST_F(Report, claims_show_verdict_effect_interval_n_and_runs) {
  StudyRow study;
  study.id = "01CLAIMS000000000000000000";
  study.name = "claims";
  study.recipe_hash = "r";
  ASSERT_OK(registry->begin_study(study, {{"a", "", 0}},
                                  {{"EMoE-1", "accuracy(emoe) > accuracy(dense)", "EMoE, Tables 1-2", "+0.8 pp", 0},
                                   {"EMoE-2", "loss(emoe) < loss(dense)", "", "", 1}}));
  for (int seed = 1; seed <= 4; ++seed) {
    ASSERT_OK(registry->add_run(study.id, {StudySketch::run_id("a", seed), "a", seed, {}, ""}));
  }
  VerdictRow verdict;
  verdict.claim_id = "EMoE-1";
  verdict.verdict = "supported";
  verdict.reason = "interval 0.01 .. 0.03 (t, n = 4)";
  verdict.effect = 0.02;
  verdict.low = 0.01;
  verdict.high = 0.03;
  verdict.n = 4;
  for (const int seed : {1, 2, 4}) verdict.runs.push_back(StudySketch::run_id("a", seed));
  ASSERT_OK(registry->write_verdicts(study.id, {verdict}));
  const auto text = claims_text(*registry, "claims", Format::table);
  ASSERT_OK(text);
  EXPECT_THAT(*text,
              HasSubstr("EMoE-1: supported\n  accuracy(emoe) > accuracy(dense)\n  from: EMoE, Tables 1-2; published: +0.8 pp\n"
                        "  effect +0.020 (+0.010 .. +0.030), n = 4\n  interval 0.01 .. 0.03 (t, n = 4)\n  runs 1-2 4\n"));
  EXPECT_THAT(*text, HasSubstr("EMoE-2: not judged"));
  verdict.adjusted = "undecided";
  ASSERT_OK(registry->write_verdicts(study.id, {verdict}));
  EXPECT_THAT(*claims_text(*registry, "claims", Format::table),
              HasSubstr("EMoE-1: supported (after Holm over all claims: undecided)\n"));
  const auto json = claims_text(*registry, "claims", Format::json);
  ASSERT_OK(json);
  const auto parsed = nlohmann::json::parse(*json);
  EXPECT_EQ(parsed[0]["effect"], 0.02);
  EXPECT_EQ(parsed[1]["verdict"], "not judged");
}

}  // namespace
}  // namespace moiety::registry
