// `moiety compare`: what is averaged, what is refused, what is said.
#include "registry/comparison.h"

#include <sqlite3.h>

#include <cmath>
#include <limits>

#include "registry/test_support.h"

namespace moiety::registry {
namespace {

using testing::HasSubstr;
using testing::Not;

using Rows = std::optional<std::vector<MetricRow>>;

Rows accuracy(double value) { return std::vector<MetricRow>{{"accuracy", {{"set", "test"}}, 0, value}}; }

class Compare : public RegistryTest {
 protected:
  std::string text(const CompareOptions& options = {}, Format format = Format::table) {
    const auto out = compare_text(*registry, options, format);
    EXPECT_TRUE(out) << out.error().message << " | " << out.error().hint;
    return out.value_or("");
  }
  Comparison numbers(const CompareOptions& options = {}) {
    auto out = compare_arms(database(), options);
    EXPECT_TRUE(out) << out.error().message << " | " << out.error().hint;
    return out.value_or(Comparison());
  }
  Error error(const CompareOptions& options = {}) {
    const auto out = compare_text(*registry, options, Format::table);
    EXPECT_FALSE(out) << *out;
    return out ? Error() : out.error();
  }
};

/// The sleep data of Student 1908: arm minus dense gives its differences, whose t.test is known (statistics_test.cpp).
StudySketch sleep_study() {
  StudySketch sketch;
  sketch.arms = {"dense", "split", "random-split"};
  sketch.seeds = 10;
  sketch.metrics = [](const std::string& arm, int seed) {
    static const double first[] = {0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0};
    static const double second[] = {1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4};
    const auto i = static_cast<std::size_t>(seed - 1);
    return accuracy(arm == "dense" ? first[i] : arm == "split" ? second[i] : first[i] + 0.1 * (seed % 2));
  };
  return sketch;
}

TEST_F(Compare, T40_mean_sd_n_paired_difference_interval_p_and_holm) {
  sleep_study().write(*registry);
  const auto comparison = numbers();
  ASSERT_EQ(comparison.metrics.size(), 1U);
  const auto& arms = comparison.metrics[0].arms;
  ASSERT_EQ(arms.size(), 3U);
  EXPECT_EQ(arms[0].arm, "dense");
  EXPECT_TRUE(arms[0].baseline);
  EXPECT_NEAR(arms[0].summary.mean, 0.75, 1e-12);
  EXPECT_NEAR(arms[0].summary.sd, 1.789010, 1e-6);
  EXPECT_FALSE(arms[0].difference);
  ASSERT_TRUE(arms[1].interval);
  EXPECT_NEAR(arms[1].difference->mean, 1.58, 1e-12);
  EXPECT_NEAR(arms[1].interval->low, 0.7001142, 1e-6);
  EXPECT_NEAR(arms[1].interval->high, 2.4598858, 1e-6);
  EXPECT_NEAR(*arms[1].p, 0.002833, 1e-6);
  EXPECT_NEAR(*arms[1].p_holm, 0.005666, 2e-6) << "the smaller of two p, doubled";
  EXPECT_NEAR(*arms[2].p_holm, *arms[2].p > 0.005666 ? *arms[2].p : 0.005666, 2e-6);

  const auto shown = text();
  EXPECT_THAT(shown, HasSubstr("score.accuracy [set=test] (higher is better)"));
  EXPECT_THAT(shown, HasSubstr("0.8 ± 1.8 (10)"));
  EXPECT_THAT(shown, HasSubstr("2.3 ± 2.0 (10)"));
  EXPECT_THAT(shown, HasSubstr("+1.6 (10)"));
  EXPECT_THAT(shown, HasSubstr("+0.7 .. +2.5"));
  EXPECT_THAT(shown, HasSubstr("0.003"));
  EXPECT_THAT(shown, HasSubstr("p (Holm)"));
  EXPECT_THAT(shown, HasSubstr("difference to dense"));
}

TEST_F(Compare, an_arm_that_does_not_vary_along_an_axis_is_compared_at_each_of_its_labels) {
  StudySketch sketch;
  sketch.arms = {"dense", "split"};
  sketch.metrics = [](const std::string& arm, int seed) { return arm == "dense" ? accuracy(0.5 + 0.01 * seed) : std::nullopt; };
  sketch.write(*registry);
  for (int seed = 1; seed <= 3; ++seed) {
    RunRow run{"01RUNSPLIT" + std::to_string(seed), "split", seed + 3, {}, ""};
    for (const char* k : {"2", "4"}) {
      StageRow stage;
      stage.id = std::string("score") + k + std::to_string(seed);
      stage.name = "score";
      stage.verb = "evaluate";
      ASSERT_OK(registry->add_stage(stage));
      ASSERT_OK(registry->write_metrics(stage.id, *accuracy(0.6)));
      ASSERT_OK(registry->set_stage_state(stage.id, "done"));
      run.stages.push_back({"score", stage.id, {{"k", k}}});
    }
    ASSERT_OK(registry->add_run(sketch.id, run));
  }
  CompareOptions options;
  options.arms = {"dense"};
  const auto comparison = numbers(options);
  ASSERT_EQ(comparison.metrics.size(), 2U) << "no table of the arm alone";
  EXPECT_EQ(comparison.metrics[0].labels, (Labels{{"k", "2"}, {"set", "test"}}));
  EXPECT_NEAR(comparison.metrics[1].arms[0].summary.mean, 0.52, 1e-12);
}

TEST_F(Compare, T40_every_format_carries_the_numbers) {
  sleep_study().write(*registry);
  const auto json = nlohmann::json::parse(text({}, Format::json));
  EXPECT_EQ(json["baseline"], "dense");
  ASSERT_EQ(json["rows"].size(), 3U);
  EXPECT_NEAR(json["rows"][1]["difference"].get<double>(), 1.58, 1e-12);
  EXPECT_EQ(json["rows"][1]["pairs"], 10);
  EXPECT_EQ(json["rows"][1]["method"], "t");
  EXPECT_TRUE(json["rows"][0]["difference"].is_null());
  const auto csv = text({}, Format::csv);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4);
  EXPECT_THAT(csv, HasSubstr("study,stage,metric,labels,unit,arm"));
  EXPECT_THAT(text({}, Format::markdown), HasSubstr("| arm | mean ± sd (n) |"));
}

TEST_F(Compare, T40_two_seeds_give_no_p) {
  auto sketch = sleep_study();
  sketch.seeds = 2;
  sketch.write(*registry);
  const auto comparison = numbers();
  EXPECT_TRUE(comparison.metrics[0].arms[1].interval);
  EXPECT_FALSE(comparison.metrics[0].arms[1].p);
  EXPECT_THAT(text(), HasSubstr("fewer than three pairs give no p"));
}

TEST_F(Compare, T38_runs_that_differ_in_more_than_the_seed_are_not_averaged) {
  auto sketch = sleep_study();
  sketch.change_tuned = [](StageRow& stage, const std::string& arm, int seed) {
    if (arm == "split" && seed == 7) stage.config["learning_rate"] = 0.01;
  };
  sketch.write(*registry);
  const auto refused = error();
  EXPECT_EQ(refused.kind, ErrorKind::usage);
  EXPECT_THAT(refused.message, HasSubstr("arm split has runs that differ in more than the seed"));
  EXPECT_THAT(refused.message, HasSubstr("stage tuned: learning_rate is 0.001 in run 11 and 0.01 in run 17"));
  CompareOptions others;
  others.arms = {"dense", "random-split"};
  EXPECT_THAT(text(others), HasSubstr("random-split"));
  // The view does not average them either.
  const auto rows = database().integer("SELECT count(*) FROM v_arms WHERE arm = 'split'");
  EXPECT_EQ(**rows, 2);
}

TEST_F(Compare, T38_the_seed_alone_is_no_difference) {
  auto sketch = sleep_study();
  sketch.change_tuned = [](StageRow& stage, const std::string&, int seed) {
    stage.config["seed"] = seed;
    stage.config["seeds"] = {{"init", seed}};
  };
  sketch.write(*registry);
  EXPECT_EQ(numbers().metrics[0].arms[1].summary.n, 10);
}

TEST_F(Compare, T37_the_table_has_the_declared_arms_and_nothing_else) {
  sleep_study().write(*registry);
  const auto comparison = numbers();
  std::vector<std::string> arms;
  for (const auto& arm : comparison.metrics[0].arms) arms.push_back(arm.arm);
  EXPECT_THAT(arms, testing::ElementsAre("dense", "split", "random-split")) << "in the order of the recipe";
}

TEST_F(Compare, T37_an_empty_table_is_an_error_with_the_reason) {
  EXPECT_THAT(error().message, HasSubstr("holds no study yet"));
  StudySketch sketch;
  sketch.metrics = {};
  sketch.write(*registry);
  EXPECT_THAT(error().message,
              HasSubstr("no measuring stage (evaluate, probe) of study sketch has finished; its runs: 6 waiting"));
  CompareOptions unknown;
  unknown.study = "sketsh";
  EXPECT_THAT(error(unknown).hint, HasSubstr("did you mean `sketch`?"));
  CompareOptions arm;
  arm.arms = {"splitt"};
  EXPECT_THAT(error(arm).hint, HasSubstr("did you mean `split`?"));
  StudySketch empty;
  empty.id = "01EMPTY000000000000000000A";
  empty.name = "empty";
  empty.seeds = 0;
  empty.write(*registry);
  EXPECT_THAT(error().message, HasSubstr("study empty has no runs"));
}

TEST_F(Compare, an_unknown_metric_is_an_error_with_near_names) {
  sleep_study().write(*registry);
  CompareOptions options;
  options.metrics = {"acuracy"};
  EXPECT_THAT(error(options).hint, HasSubstr("did you mean `accuracy`?"));
  options.metrics = {"score.accuracy"};
  EXPECT_EQ(numbers(options).metrics.size(), 1U);
}

TEST_F(Compare, T43_other_threads_builds_or_cpus_are_warned_of) {
  auto sketch = sleep_study();
  sketch.change_attempt = [](AttemptRow& attempt, const std::string& arm, int) {
    attempt.threads = arm == "split" ? 2 : 1;
    attempt.cpu = "avx512";
    attempt.torch_build_id = arm == "random-split" ? std::string(40, 'b') : std::string(40, 'a');
  };
  sketch.change_tuned = [](StageRow& stage, const std::string& arm, int) {
    stage.plugins = {{"router", {"router", "top-k", "1", arm == "split" ? std::string(40, 'c') : std::string(40, 'd'), "/x.so"}}};
  };
  sketch.write(*registry);
  const auto warnings = numbers().warnings;
  const auto all = testing::PrintToString(warnings);
  EXPECT_EQ(warnings.size(), 3U) << all;
  EXPECT_THAT(all, HasSubstr("in stages score and tuned arms differ in threads (dense: 1; split: 2; random-split: 1)"));
  EXPECT_THAT(all, HasSubstr("arms differ in LibTorch build (dense: aaaaaaaaaaaa; "));
  EXPECT_THAT(all, HasSubstr("in stage tuned arms differ in the build of router/top-k@1 ("));
  EXPECT_THAT(all, Not(HasSubstr("CPU")));
  EXPECT_THAT(text(), HasSubstr("warning: in stages score and tuned arms differ in threads"));
}

/// The pinned pretraining takes two threads, the other stages one; `score` of arm `odd` takes four.
void set_threads(StudySketch& sketch, const std::string& odd) {
  sketch.change_attempt = [odd](AttemptRow& attempt, const std::string& arm, int seed) {
    const auto is = [&](const char* stage) { return attempt.stage_id == StudySketch::stage_id(stage, arm, seed); };
    attempt.threads = is("pretrained") ? 2 : is("score") && arm == odd ? 4 : 1;
  };
}

TEST_F(Compare, T43_stages_of_different_names_are_not_compared) {
  auto sketch = sleep_study();
  set_threads(sketch, "none");
  sketch.write(*registry);
  EXPECT_TRUE(numbers().warnings.empty()) << text();
}

TEST_F(Compare, T43_the_stage_in_which_arms_differ_is_named) {
  auto sketch = sleep_study();
  set_threads(sketch, "split");
  sketch.write(*registry);
  const auto warnings = numbers().warnings;
  ASSERT_EQ(warnings.size(), 1U) << testing::PrintToString(warnings);
  EXPECT_THAT(warnings[0], HasSubstr("in stage score arms differ in threads (dense: 1; split: 4; random-split: 1)"));
  CompareOptions others;
  others.arms = {"dense", "random-split"};
  EXPECT_TRUE(numbers(others).warnings.empty()) << "an arm that is not shown is not looked at";
}

TEST_F(Compare, T43_equal_machines_give_no_warning) {
  sleep_study().write(*registry);
  EXPECT_TRUE(numbers().warnings.empty());
}

TEST_F(Compare, T09_diverged_and_failed_runs_are_counted_and_named) {
  auto sketch = sleep_study();
  const auto before = sketch.metrics;
  sketch.metrics = [before](const std::string& arm, int seed) -> Rows {
    if (arm == "split" && seed == 2) return accuracy(std::numeric_limits<double>::quiet_NaN());
    if (arm == "split" && seed > 7) return std::nullopt;
    return before(arm, seed);
  };
  sketch.write(*registry);
  ASSERT_OK(registry->set_stage_state(StudySketch::stage_id("tuned", "split", 8), "diverged"));
  ASSERT_OK(registry->set_stage_state(StudySketch::stage_id("tuned", "split", 9), "failed"));
  const auto arm = numbers().metrics[0].arms[1];
  EXPECT_THAT(arm.diverged, testing::ElementsAre(12, 18));
  EXPECT_THAT(arm.failed, testing::ElementsAre(19));
  EXPECT_THAT(arm.unfinished, testing::ElementsAre(20));
  EXPECT_EQ(arm.summary.n, 6);
  EXPECT_EQ(arm.difference->n, 6) << "pairs of seeds that both have";
  EXPECT_THAT(text(), HasSubstr("2 diverged (run 12 18), 1 failed (run 19), 1 unfinished (run 20)"));
}

TEST_F(Compare, all_equal_values_take_one_line) {
  StudySketch sketch;
  sketch.metrics = [](const std::string&, int) { return accuracy(0.5); };
  sketch.write(*registry);
  EXPECT_THAT(
      text(),
      HasSubstr("score.accuracy [set=test] (higher is better): 0.5 in all 6 runs: neither arm nor seed changes anything here"));
}

TEST_F(Compare, a_seed_that_changes_nothing_is_said) {
  StudySketch sketch;
  sketch.metrics = [](const std::string& arm, int) { return accuracy(arm == "dense" ? 0.5 : 0.75); };
  sketch.write(*registry);
  const auto shown = text();
  EXPECT_THAT(shown, HasSubstr("the seed changes nothing here"));
  EXPECT_THAT(shown, HasSubstr("+0.25 (3)"));
}

TEST_F(Compare, pinned_stages_condition_what_is_said) {
  sleep_study().write(*registry);
  EXPECT_THAT(text(), HasSubstr("over 10 seeds of 1 pinned model (pretrained)"));
}

TEST_F(Compare, one_group_over_all_runs_leaves_the_seed_as_unit) {
  auto sketch = sleep_study();
  sketch.group = [](const std::string&, int) { return std::string("pinned"); };
  sketch.write(*registry);
  EXPECT_EQ(numbers().metrics[0].arms[1].difference->n, 10);
}

TEST_F(Compare, seeds_that_take_turns_with_pinned_models_are_units_by_group) {
  StudySketch sketch;
  sketch.seeds = 6;
  // seed = [1, 2, 3]: runs 1 and 4, 2 and 5, 3 and 6 share a model; each arm has models of its own.
  sketch.group = [](const std::string& arm, int seed) { return arm + std::to_string((seed - 1) % 3); };
  sketch.metrics = [](const std::string& arm, int seed) {
    return accuracy((seed - 1) % 3 + (seed > 3 ? 0.5 : 0.0) + (arm == "split" ? 1 + 0.1 * ((seed - 1) % 3) : 0));
  };
  sketch.write(*registry);
  const auto comparison = numbers();
  const auto& arm = comparison.metrics[0].arms[1];
  EXPECT_EQ(arm.summary.n, 3);
  EXPECT_EQ(arm.difference->n, 3);
  EXPECT_NEAR(arm.difference->mean, 1.1, 1e-12);
  EXPECT_NEAR(arm.difference->sd, 0.1, 1e-12);
  EXPECT_THAT(text(), HasSubstr("n counts groups of seeds"));
}

TEST_F(Compare, perplexity_over_domains_is_the_exponential_of_the_mean_loss) {
  StudySketch sketch;
  sketch.metrics = [](const std::string& arm, int seed) -> Rows {
    const double factor = arm == "split" ? 0.9 + 0.01 * seed : 1.0 + 0.01 * seed;
    return std::vector<MetricRow>{{"perplexity", {{"domain", "fiction"}}, 0, 10 * factor},
                                  {"perplexity", {{"domain", "manuals"}}, 0, 1000 * factor},
                                  {"accuracy", {{"domain", "fiction"}}, 0, 0.2},
                                  {"accuracy", {{"domain", "manuals"}}, 0, 0.6 + 0.01 * seed}};
  };
  sketch.write(*registry);
  const auto comparison = numbers();
  ASSERT_EQ(comparison.metrics.size(), 2U);
  EXPECT_NEAR(comparison.metrics[0].arms[0].summary.mean, 0.41, 1e-9) << "accuracy: arithmetic mean";
  EXPECT_NEAR(comparison.metrics[1].arms[0].summary.mean, 102, 1e-9) << "perplexity: geometric mean, 10 and 1000 give 100";
  const auto shown = text();
  EXPECT_THAT(shown, HasSubstr("macro mean of 2 domains"));
  EXPECT_THAT(shown, Not(HasSubstr("manuals")));
  CompareOptions asked;
  asked.metrics = {"perplexity"};
  const auto wide = text(asked);
  EXPECT_THAT(wide, HasSubstr("fiction"));
  EXPECT_THAT(wide, HasSubstr("manuals"));
  EXPECT_THAT(wide, HasSubstr("1020 ± 10 (3)"));
}

TEST_F(Compare, a_run_that_lacks_a_domain_is_unfinished_not_averaged) {
  StudySketch sketch;
  sketch.metrics = [](const std::string& arm, int seed) -> Rows {
    std::vector<MetricRow> rows = {{"loss", {{"domain", "fiction"}}, 0, 4.0 + 0.1 * seed}};
    if (arm != "split" || seed != 2) rows.push_back({"loss", {{"domain", "manuals"}}, 0, 6.0});
    return rows;
  };
  sketch.write(*registry);
  const auto arm = numbers().metrics[0].arms[1];
  EXPECT_EQ(arm.summary.n, 2);
  EXPECT_THAT(arm.unfinished, testing::ElementsAre(5));
}

TEST_F(Compare, more_seeds_need_no_more_queries) {
  const auto queries = [this] {
    int n = 0;
    const auto count = [](unsigned, void* into, void*, void*) { return ++*static_cast<int*>(into), 0; };
    sqlite3_trace_v2(database().handle(), SQLITE_TRACE_STMT, count, &n);
    EXPECT_EQ(numbers().metrics.size(), 1U);
    sqlite3_trace_v2(database().handle(), 0, nullptr, nullptr);
    return n;
  };
  StudySketch sketch;
  sketch.metrics = [](const std::string& arm, int seed) { return accuracy(0.1 * seed + (arm == "split" ? 0.01 : 0.02)); };
  sketch.write(*registry);
  const int three_seeds = queries();
  sketch.seeds = 6;
  sketch.write(*registry);
  EXPECT_EQ(numbers().metrics[0].arms[1].summary.n, 6);
  EXPECT_EQ(queries(), three_seeds);
}

TEST_F(Compare, the_newest_study_is_taken_and_an_older_one_by_name_or_id) {
  sleep_study().write(*registry);
  EXPECT_EQ(numbers().study.name, "sketch");
  CompareOptions by_prefix;
  by_prefix.study = "01study";
  EXPECT_EQ(numbers(by_prefix).study.name, "sketch");
}

}  // namespace
}  // namespace moiety::registry
