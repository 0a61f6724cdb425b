// Stages that read some of the corpus: domains, groups of them, so many tokens, a fraction.
#include "kernel/engine/stages/selection.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <map>
#include <numeric>

#include "kernel/base/text.h"
#include "kernel/engine/checkpoint/series.h"
#include "kernel/engine/testing/job_fixture.h"
#include "kernel/engine/worker/run.h"

namespace moiety::engine {
namespace {

using nlohmann::json;
using testing::run_here;
using testing::run_stopped_at_every_step;
using testing::TinyStore;

/// The values of a metric by their domain.
std::map<std::string, double> by_domain(const TinyStore& store, const std::string& name, const std::string& metric) {
  std::map<std::string, double> values;
  for (const auto& line : split(store.file(name, "series.jsonl"), '\n')) {
    if (line.empty()) continue;
    const auto row = parse_series_line(line);
    if (row && row->name == metric) values[row->labels.count("domain") ? row->labels.at("domain") : ""] = row->value;
  }
  return values;
}

/// The job with a group of the two small domains, made by naming what it lacks.
json grouped(json job) {
  job["groups"] = {{"small", {{"without", {"domain0"}}}}, {"large", {{"of", {"domain0"}}}}};
  return job;
}

std::int64_t windows_read(const json& manifest, const std::string& domain) {
  return manifest["position"].value(domain, std::int64_t{0});
}

const std::vector<std::string> three_domains{"a", "b", "c"};

Result<Selection> select_from(const DataSelection& data, const json& groups = json::object()) {
  const auto job =
      Job::from_json({{"stage", "s"}, {"verb", "v"}, {"seeds", json::object()}, {"config", json::object()}, {"groups", groups}});
  return select_domains(data, three_domains, *job);
}

TEST(Selection, names_domains_groups_and_what_is_left_out) {
  const json groups = {{"ab", {{"of", {"b", "a"}}}}, {"rest", {{"without", {"c"}}}}};
  DataSelection data;
  EXPECT_EQ(select_from(data)->names, three_domains);
  data.domains = {"c", "ab"};
  const auto chosen = select_from(data, groups);
  EXPECT_EQ(chosen->names, (std::vector<std::string>{"c", "ab"})) << "in the order in which they are written";
  EXPECT_EQ(chosen->members, (std::vector<std::vector<std::int64_t>>{{2}, {0, 1}}));
  data.domains = {"rest"};
  data.without = {"b"};
  EXPECT_EQ(select_from(data, groups)->members, (std::vector<std::vector<std::int64_t>>{{0}}));
  data = {};
  data.without = {"ab"};
  EXPECT_EQ(select_from(data, groups)->names, (std::vector<std::string>{"c"}));
  data.domains = {"aa"};
  EXPECT_NE(select_from(data).error().message.find("`aa`"), std::string::npos);
  data.domains = {"a", "a"};
  EXPECT_FALSE(select_from(data));
  data.domains = {"a"};
  data.without = {"a"};
  EXPECT_FALSE(select_from(data)) << "nothing is left";
}

TEST(Selection, fewer_tokens_are_a_prefix_of_more_and_come_in_proportion) {
  const std::vector<std::int64_t> tokens{1000, 5, 300, 170};
  Selection selection;
  selection.names = {"x", "y"};
  selection.members = {{0, 1}, {2, 3}};
  const std::int64_t context = 10, all = 99 + 29 + 16;
  std::vector<std::int64_t> before(4);
  for (std::int64_t wanted = 1; wanted <= all + 3; ++wanted) {
    selection.tokens = wanted * context + 7;
    std::vector<std::int64_t> now;
    for (const auto& pieces : pieces_of(selection, tokens, context))
      for (const Piece& piece : pieces) now.push_back(piece.windows(context));
    ASSERT_EQ(now.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) ASSERT_GE(now[i], before[i]);
    ASSERT_EQ(std::accumulate(now.begin(), now.end(), std::int64_t{0}), std::min(wanted, all));
    ASSERT_LT(std::abs(static_cast<double>(now[0]) - static_cast<double>(std::min(wanted, all)) * 99 / all), 2);
    before = now;
  }
  selection.tokens = 0;
  selection.fraction = 0.5;
  EXPECT_EQ(windows_of(pieces_of(selection, tokens, context), context), (std::vector<std::int64_t>{49, 14 + 8}));
}

TEST(Selection, a_group_is_one_domain_made_of_its_members_one_after_the_other) {
  const TinyStore store;
  const auto corpus_of = EvaluationCorpus::open(store.corpus(), Split::train);
  Selection selection;
  selection.names = {"group"};
  selection.members = {{0, 2}};
  const TokenStreams joined = selected(selection, corpus_of->streams(), 16);
  EXPECT_EQ(joined.windows(0, 16), 187 + 43);
  std::vector<std::int64_t> a(16), b(16), ignored(16);
  joined.window(0, 187 + 5, 16, a.data(), ignored.data());
  corpus_of->streams().window(2, 5, 16, b.data(), ignored.data());
  EXPECT_EQ(a, b);
  EXPECT_EQ(joined.place(0, 190, 16), (std::pair<std::int64_t, std::int64_t>{2, 3}));
  EXPECT_THROW(joined.place(0, 230, 16), std::out_of_range);
}

TEST(Pretrain, reads_the_selected_domains_and_no_others) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("one", {{"data", {{"domains", "domain1"}}}, {"budget", "2 epochs"}})), 0);
  const auto one = store.manifest("one");
  EXPECT_EQ(one["cost"]["tokens"], std::ceil(2 * 93 / 4.0) * 4 * 16);
  EXPECT_EQ(one["position"].size(), 1U);
  ASSERT_EQ(run_here(store.pretrain("without", {{"data", {{"without", {"domain0"}}}}, {"budget", "34 steps"}})), 0);
  const auto without = store.manifest("without");
  EXPECT_EQ(without["position"].size(), 2U);
  EXPECT_EQ(windows_read(without, "domain1") + windows_read(without, "domain2"), 34 * 4);
  EXPECT_EQ(run_here(store.pretrain("none", {{"data", {{"domains", "domian1"}}}})), 1);
}

TEST(Pretrain, a_group_is_one_domain) {
  const TinyStore store;
  json job = grouped(store.pretrain("p", {{"data", {{"domains", {"small", "large"}}}}, {"budget", "40 steps"}}));
  ASSERT_EQ(run_here(job), 0);
  const auto made = store.manifest("p");
  EXPECT_NEAR(windows_read(made, "small"), 160.0 * (93 + 43) / (187 + 93 + 43), 1);
  EXPECT_EQ(windows_read(made, "small") + windows_read(made, "large"), 160);
  ASSERT_EQ(run_here(grouped(store.evaluate("e", "p", {{"data", {{"domains", {"small", "domain1", "domain2"}}}}}))), 0);
  const auto loss = by_domain(store, "e", "loss");
  ASSERT_EQ(loss.size(), 3U);
  EXPECT_NEAR(loss.at("small"), (loss.at("domain1") + loss.at("domain2")) / 2, 1e-6) << "both have 24 windows to measure";
  ASSERT_EQ(run_here(store.evaluate("v", "p", {{"data", {{"domains", "domain1"}, {"split", "valid"}}}})), 0);
  EXPECT_NE(by_domain(store, "v", "loss").at("domain1"), loss.at("domain1"));
}

TEST(Pretrain, reads_no_more_tokens_than_selected_and_a_fraction_of_the_corpus) {
  const TinyStore store;
  const auto epoch = [&](const std::string& name, const json& data, double fraction = 1) {
    json job = store.pretrain(name, {{"budget", "1 epochs"}, {"batch", 1}, {"data", data}});
    job["corpus"]["fraction"] = fraction;
    EXPECT_EQ(run_here(job), 0);
    return store.manifest(name)["cost"]["tokens"].get<std::int64_t>() / 16;
  };
  EXPECT_EQ(epoch("t", {{"tokens", 820}}), 51);
  EXPECT_EQ(epoch("f", {{"domains", "domain0"}, {"fraction", 0.5}}), 93);
  EXPECT_EQ(epoch("c", json::object(), 0.5), (1500 - 1) / 16 + (750 - 1) / 16 + (350 - 1) / 16);
  // Where the windows are others the position is another, too: a child does not skip what its parent never had in that order.
  EXPECT_TRUE(store.manifest("t")["position"].contains("domain0 (29 windows)")) << store.manifest("t")["position"];
}

TEST(Pretrain, T42_with_selected_data_stopped_after_every_step_it_ends_with_the_same_bits) {
  const TinyStore store;
  const json changes = {{"data", {{"domains", {"small", "large"}}, {"tokens", "800"}}}, {"micro_batch", 3}};
  ASSERT_EQ(run_here(grouped(store.pretrain("whole", changes))), 0);
  const json job = grouped(store.pretrain("parts", changes));
  ASSERT_EQ(run_stopped_at_every_step(job), 0);
  for (const char* file : {"model.safetensors", "series.jsonl"})
    EXPECT_EQ(store.digest("parts", file), store.digest("whole", file));
  EXPECT_EQ(store.manifest("parts")["position"], store.manifest("whole")["position"]);
}

TEST(Check, selections_that_cannot_be_are_told_before_the_run) {
  const TinyStore store;
  const auto problem = [](const json& job, const std::string& path) { EXPECT_EQ(testing::first_problem(job), path); };
  problem(store.pretrain("a", {{"data", {{"domains", "domain7"}}}}), "data");
  problem(store.pretrain("b", {{"data", {{"tokens", "many"}}}}), "data.tokens");
  problem(store.pretrain("c", {{"data", {{"split", "test"}}}}), "data.split");
  problem(store.finetune("d", "", {{"data", {{"domains", "domain1"}}}}), "");
  json cut = store.pretrain("e");
  cut["corpus"]["fraction"] = 0;
  EXPECT_FALSE(Job::from_json(cut));
}

}  // namespace
}  // namespace moiety::engine
