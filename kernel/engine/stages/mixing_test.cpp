// Mixing schedulers that weigh losses, look at what was learned, and keep budgets.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <numeric>

#include "kernel/engine/stages/mixing_run.h"
#include "kernel/engine/stages/stage_report.h"
#include "kernel/engine/testing/fake_components.h"
#include "kernel/engine/testing/job_fixture.h"
#include "kernel/engine/testing/tensors.h"

namespace moiety::engine {
namespace {

using nlohmann::json;
using testing::run_here;
using testing::run_stopped_at_every_step;
using testing::TinyStore;

struct ScriptedMixing final : public MixingScheduler {
  struct Told {
    using Made = ScriptedMixing;
    Mixture mixture;
    bool conserves = false;
    std::int64_t every = 0;
    std::vector<Feedback>* said = nullptr;
    std::vector<std::int64_t>* asked = nullptr;
  };
  explicit ScriptedMixing(Told told) : told_(std::move(told)) {}
  Needs needs() const override {
    Needs needs;
    needs.token_losses = told_.said != nullptr;
    return needs;
  }
  void start(const Domains&) override {}
  Mixture mixture(const Progress&) const override { return told_.mixture; }
  void feedback(const Feedback& said) override { told_.said->push_back(said); }
  std::int64_t inspect_every() const override { return told_.every; }
  void inspect(const Model& model, const Data& data, const Progress& progress, Random) override {
    told_.asked->push_back(progress.step);
    model.token_losses({data.table().first[1]});
  }
  bool conserves_budgets() const override { return told_.conserves; }
  Told told_;
};

struct MixingBench {
  MixingBench() : corpus(*TrainingCorpus::open(store.corpus())), pool(corpus.streams(TrainingSplit::train), 16) {}
  MixingRun::Given given(std::int64_t steps, std::int64_t batch) const {
    MixingRun::Given given;
    given.pool = &pool;
    given.names = {"domain0", "domain1", "domain2"};
    given.steps = steps;
    given.batch = batch;
    return given;
  }
  TinyStore store;
  TrainingCorpus corpus;
  WindowPool pool;
};

TEST(MixingRun, factors_have_a_mean_of_one_over_the_step) {
  const MixingBench bench;
  const auto mixing = testing::instance<ScriptedMixing::Told>("mixing_scheduler", {{{1, 1, 1}, {1, 2, 6}}});
  MixingRun run(mixing, bench.given(5, 3));
  EXPECT_EQ(run.due(0).size(), 3U);
  const auto factors = run.factors({0, 200, 300});
  ASSERT_EQ(factors.size(), 3U);
  EXPECT_DOUBLE_EQ(factors[0] + factors[1] + factors[2], 3);
  EXPECT_DOUBLE_EQ(factors[2], 6 * factors[0]);
  const auto nothing = testing::instance<ScriptedMixing::Told>("mixing_scheduler", {{{1, 1, 1}, {0, 0, 1}}});
  MixingRun none(nothing, bench.given(5, 3));
  none.due(0);
  EXPECT_THROW(none.factors({0, 200}), ComponentFailure);
  const auto wrong = testing::instance<ScriptedMixing::Told>("mixing_scheduler", {{{1, 1}, {}}});
  MixingRun two(wrong, bench.given(5, 3));
  EXPECT_THROW(two.due(0), ComponentFailure);
}

TEST(MixingRun, budgets_are_those_of_the_shares_at_the_start_whatever_is_proposed_later) {
  const MixingBench bench;
  ScriptedMixing::Told told{{{0.5, 0.25, 0.25}, {}}};
  told.conserves = true;
  const auto mixing = testing::instance<ScriptedMixing::Told>("mixing_scheduler", told);
  MixingRun run(mixing, bench.given(10, 4));
  std::vector<std::int64_t> given(3);
  for (std::int64_t step = 0; step < 10; ++step) {
    static_cast<ScriptedMixing&>(*mixing.component).told_.mixture.shares = {0, step < 3 ? 0.0 : 1.0, 5};
    for (const std::int64_t domain : run.due(step)) ++given[static_cast<std::size_t>(domain)];
  }
  EXPECT_EQ(given, (std::vector<std::int64_t>{20, 10, 10}));
}

TEST(MixingRun, hands_back_losses_in_their_order_once_a_step_and_asks_when_it_is_due) {
  const MixingBench bench;
  std::vector<Feedback> said;
  std::vector<std::int64_t> asked_at;
  ScriptedMixing::Told told{{{1, 1, 1}, {}}, false, 2, &said, &asked_at};
  const auto mixing = testing::instance<ScriptedMixing::Told>("mixing_scheduler", told);
  MixingRun run(mixing, bench.given(5, 4));
  Architecture architecture;
  architecture.layers = 1;
  architecture.width = 8;
  architecture.heads = 2;
  architecture.context = 16;
  architecture.inner = 8;
  architecture.vocabulary = 40;
  const Gpt model(architecture, {});
  const WindowLabels labels;
  const AskedModel asked(model, bench.pool, labels);
  const PoolData data(bench.pool, {"domain0", "domain1", "domain2"}, [&] { return token_counts(bench.pool.streams, 16, 40); });
  for (std::int64_t step = 0; step < 4; ++step) run.inspect(step, asked, data);
  EXPECT_EQ(asked_at, (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(asked.forward_tokens(), 2 * 16);
  EXPECT_EQ(data.token_counts().sum().item<std::int64_t>(), (187 + 93 + 43) * 16 + 3);

  ASSERT_TRUE(run.wants_losses());
  run.observe(at::full({2, 16}, 1.0), {300, 0}, {});
  run.observe(at::full({1, 16}, 2.0), {200}, {});
  run.feedback(7);
  run.feedback(8);
  ASSERT_EQ(said.size(), 1U) << "nothing was observed in the second step";
  EXPECT_EQ(said[0].step, 7);
  EXPECT_TRUE(at::equal(said[0].domain, at::tensor(std::vector<std::int64_t>{2, 0, 1})));
  EXPECT_TRUE(at::equal(said[0].losses.select(1, 5), at::tensor(std::vector<float>{1, 1, 2})));
  EXPECT_FALSE(said[0].reference.defined());
}

TEST(WeightedLoss, is_the_weighted_mean_of_the_windows_losses) {
  const MixingBench bench;
  Architecture architecture;
  architecture.layers = 1;
  architecture.width = 8;
  architecture.heads = 2;
  architecture.context = 16;
  architecture.inner = 8;
  architecture.vocabulary = 40;
  Gpt model(architecture, {}, at::kDouble);
  model.initialise(Random(4));
  const WindowBatch packed = pack_windows(bench.pool.streams, 16, bench.pool.locate({1, 250, 2, 310}));
  const std::vector<double> factors{0.5, 1.25, 0.5, 0};
  const auto gradient = [&](const at::Tensor& loss) {
    model.parameters().zero_gradient();
    loss.backward();
    return model.parameters().flat_gradient().clone();
  };
  ForwardContext a, b;
  const PassLoss loss = weighted_loss(model, model.hidden(packed.batch, a), packed.targets, {}, factors);
  const at::Tensor found = gradient(loss.trained);
  const at::Tensor rows =
      at::nll_loss(at::log_softmax(model.read_out(model.hidden(packed.batch, b), {}), 1), packed.targets, {}, at::Reduction::None)
          .view({4, 16})
          .mean(1);
  EXPECT_NEAR(loss.mean, rows.mean().item<double>(), 1e-12);
  const at::Tensor expected = (rows * at::tensor(factors, at::kDouble)).mean();
  EXPECT_NEAR(loss.trained.item<double>(), expected.item<double>(), 1e-12);
  EXPECT_LT((found - gradient(expected)).abs().max().item<double>(), 1e-13);
}

json doremi(const TinyStore& store, const std::string& name) {
  json job = store.pretrain(name, {{"mixing", {{"use", "doremi"}, {"reference", "mixing.reference"}}}, {"micro_batch", 3}});
  job["inputs"].push_back({{"name", "mixing.reference"}, {"stage", "r"}, {"path", store.artifact("r")}});
  return job;
}

TEST(Mixing, T42_weights_by_the_losses_of_a_reference_and_the_same_bits_after_every_stop) {
  const TinyStore store;
  ASSERT_EQ(run_here(store.pretrain("r", {{"budget", "40 steps"}})), 0);
  ASSERT_EQ(run_here(doremi(store, "whole")), 0);
  const json parts = doremi(store, "parts");
  ASSERT_EQ(run_stopped_at_every_step(parts), 0);
  EXPECT_EQ(store.digest("parts", "model.safetensors"), store.digest("whole", "model.safetensors"));
  EXPECT_EQ(store.file("parts", "series.jsonl"), store.file("whole", "series.jsonl"));
  const json a = store.manifest("whole"), b = store.manifest("parts");
  EXPECT_EQ(a["results"], b["results"]);
  EXPECT_EQ(a["cost"]["flops"], b["cost"]["flops"]);
  ASSERT_TRUE(a["results"].contains("weights")) << a["results"];
  double sum = 0;
  for (const auto& [domain, weight] : a["results"]["weights"].items()) sum += weight.get<double>();
  EXPECT_NEAR(sum, 1, 1e-9);
  const json plain = store.manifest("r");
  EXPECT_GT(a["cost"]["flops"].get<double>(), plain["cost"]["flops"].get<double>() * 12 / 40) << "the reference runs as well";
}

TEST(Mixing, T42_a_scheduler_that_looks_at_gradients_moves_the_order_and_keeps_the_budgets) {
  const TinyStore store;
  const auto job = [&](const std::string& name) {
    return store.pretrain(name, {{"mixing", {{"use", "lie-bracket"}, {"every", 4}, {"batches", 2}, {"batch", 2}, {"shift", 0.9}}},
                                 {"budget", "20 steps"}});
  };
  ASSERT_EQ(run_here(job("whole")), 0);
  const json parts = job("parts");
  ASSERT_EQ(run_stopped_at_every_step(parts), 0);
  EXPECT_EQ(store.digest("parts", "model.safetensors"), store.digest("whole", "model.safetensors"));
  EXPECT_EQ(store.file("parts", "series.jsonl"), store.file("whole", "series.jsonl"));
  ASSERT_EQ(run_here(store.pretrain("plain", {{"budget", "20 steps"}})), 0);
  const json a = store.manifest("whole"), b = store.manifest("plain");
  for (const auto& [domain, windows] : b["position"].items())
    EXPECT_NEAR(a["position"][domain].get<double>(), windows.get<double>(), 1) << domain;
  EXPECT_NE(store.digest("plain", "model.safetensors"), store.digest("whole", "model.safetensors"));
  const json c = store.manifest("parts");
  EXPECT_EQ(a["cost"]["flops"], c["cost"]["flops"]);
  EXPECT_GT(a["cost"]["flops"].get<double>(), b["cost"]["flops"].get<double>()) << "questions cost something";
}

TEST(Mixing, T42_a_bracket_preconditioned_by_the_optimizer_is_another_one_and_resumes_too) {
  const TinyStore store;
  const auto job = [&](const std::string& name, const char* bracket) {
    return store.pretrain(
        name,
        {{"mixing", {{"use", "lie-bracket"}, {"every", 4}, {"batches", 2}, {"batch", 2}, {"shift", 0.9}, {"bracket", bracket}}},
         {"budget", "20 steps"}});
  };
  ASSERT_EQ(run_here(job("plain", "plain")), 0);
  ASSERT_EQ(run_here(job("whole", "preconditioned")), 0);
  const json parts = job("parts", "preconditioned");
  ASSERT_EQ(run_stopped_at_every_step(parts), 0);
  EXPECT_EQ(store.digest("parts", "model.safetensors"), store.digest("whole", "model.safetensors"));
  EXPECT_NE(store.digest("plain", "model.safetensors"), store.digest("whole", "model.safetensors"));
}

TEST(Regress, finds_from_small_runs_which_domains_to_read) {
  const TinyStore store;
  const std::vector<std::vector<double>> mixtures{{1, 0, 0},       {0, 1, 0},       {0, 0, 1},
                                                  {0.6, 0.2, 0.2}, {0.2, 0.6, 0.2}, {0.2, 0.2, 0.6}};
  json job = store.evaluate("r", "", {{"samples", 2000}, {"best", 20}});
  job["verb"] = "regress";
  job["model"] = nullptr;
  for (std::size_t i = 0; i < mixtures.size(); ++i) {
    const std::string name = "m" + std::to_string(i);
    const json weights = {{"domain0", mixtures[i][0]}, {"domain1", mixtures[i][1]}, {"domain2", mixtures[i][2]}};
    ASSERT_EQ(run_here(store.pretrain(name, {{"budget", "60 steps"}, {"mixing", {{"use", "constant"}, {"weights", weights}}}})),
              0);
    job["inputs"].push_back({{"name", "from"}, {"stage", name}, {"path", store.artifact(name)}});
    const json shares = store.manifest(name)["results"]["shares"];
    EXPECT_NEAR(shares["domain1"].get<double>(), mixtures[i][1], 0.01);
  }
  ASSERT_EQ(run_here(job), 0);
  const json results = store.manifest("r")["results"];
  double sum = 0;
  for (const auto& [domain, weight] : results["weights"].items()) sum += weight.get<double>();
  EXPECT_NEAR(sum, 1, 1e-9);
  std::map<double, double> by_slope;  // the steeper a domain lowers the loss, the more of it
  for (const auto& [domain, slope] : results["slopes"].items()) by_slope[slope] = results["weights"][domain].get<double>();
  EXPECT_GT(by_slope.begin()->second, 0.5) << results;
  EXPECT_LT(by_slope.rbegin()->second, by_slope.begin()->second);
  json few = job;
  few["stage"] = few["name"] = "few";
  few["artifact"] = store.artifact("few");
  few["inputs"] = json::array({job["inputs"][0], job["inputs"][1]});
  EXPECT_EQ(run_here(few), 1);
}

}  // namespace
}  // namespace moiety::engine
