// What of a model trains, and how: `train`, `optimizer`; what is put together again.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "kernel/base/text.h"
#include "kernel/engine/testing/exact_gradients.h"
#include "kernel/engine/testing/job_fixture.h"

namespace moiety::engine {
namespace {

using nlohmann::json;
using testing::run_here;
using testing::run_stopped_at_every_step;
using testing::TinyStore;

/// Names of the tensors that differ between two models of the same layout.
std::set<std::string> changed(const TensorMap& before, const TensorMap& after) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : after) {
    const auto found = before.find(name);
    if (found != before.end() && !at::equal(found->second, tensor)) names.insert(name);
  }
  return names;
}

const json head = {{"train", {{"head", true}}}};
const json only = {{"train", {{"only", {"layer1.*", "final_norm.gain"}}}}};
const json lora = {{"train", {{"lora", {{"rank", 2}, {"alpha", 4.0}}}}}};
const json on_experts = {{"train", {{"lora", {{"rank", 2}, {"matrices", {"layer*.feed_forward.in", "*.out"}}}}}}};

class Trained : public ::testing::Test {
 protected:
  Trained() { EXPECT_EQ(run_here(store.pretrain("dense", {{"budget", "12 steps"}})), 0); }
  /// The plan said what the model has.
  void expect_planned(const json& job) const {
    const json plan = testing::planned(job)["cost"], made = store.manifest(job["name"])["cost"];
    for (const char* key : {"total_parameters", "active_parameters"}) EXPECT_EQ(plan[key], made[key]) << key;
  }
  json pruned(const std::string& name, const std::string& from, const std::string& usage, int keep) const {
    json job = store.construct(name, from, {});
    job["verb"] = "prune";
    job["config"] = {{"keep", keep}, {"experts", {{"use", "kept"}}}, {"router", {{"use", "all"}}}};
    job["inputs"].push_back({{"name", "usage"}, {"stage", usage}, {"path", store.artifact(usage)}});
    return job;
  }
  TinyStore store;
};

TEST_F(Trained, only_what_is_named_changes) {
  const TensorMap before = store.tensors("dense");
  ASSERT_EQ(run_here(store.finetune("head", "dense", head)), 0);
  EXPECT_EQ(changed(before, store.tensors("head")), std::set<std::string>{}) << "the head is new, all else as it was";
  ASSERT_EQ(run_here(store.pretrain_from("only", "dense", only)), 0);
  const auto names = changed(before, store.tensors("only"));
  EXPECT_EQ(names.count("final_norm.gain"), 1U);
  EXPECT_EQ(names.count("layer1.feed_forward.in"), 1U);
  for (const auto& name : names) EXPECT_TRUE(name == "final_norm.gain" || name.rfind("layer1.", 0) == 0) << name;
  ASSERT_EQ(run_here(store.finetune("lora", "dense", lora)), 0);
  const TensorMap tuned = store.tensors("lora");
  EXPECT_EQ(changed(before, tuned), (std::set<std::string>{"layer0.attention.output", "layer0.attention.qkv",
                                                           "layer1.attention.output", "layer1.attention.qkv"}));
  // What was added has the adapters' rank.
  const at::Tensor added = (tuned.at("layer1.attention.qkv") - before.at("layer1.attention.qkv")).to(at::kDouble);
  const at::Tensor values = std::get<1>(at::linalg_svd(added, false));
  EXPECT_GT(values[1].item<double>(), 1e-5);
  EXPECT_LT(values[2].item<double>(), 1e-6 * std::max(1.0, values[0].item<double>()));
}

TEST_F(Trained, counts_say_what_trains) {
  const auto cost = [&](const std::string& name, const json& changes) {
    EXPECT_EQ(run_here(store.finetune(name, "dense", changes)), 0);
    return store.manifest(name)["cost"];
  };
  const json full = cost("full", json::object()), of_head = cost("head", head), of_lora = cost("lora", lora);
  EXPECT_EQ(full["trainable_parameters"], full["total_parameters"]);
  EXPECT_EQ(of_head["total_parameters"], full["total_parameters"]);
  EXPECT_EQ(of_head["trainable_parameters"], 4 * 16 + 4) << "four classes";
  // Two layers, rank 2: qkv [48, 16] and output [16, 16]; and the head.
  EXPECT_EQ(of_lora["trainable_parameters"], 2 * 2 * (48 + 16 + 16 + 16) + 4 * 16 + 4);
  EXPECT_EQ(of_lora["flops"], full["flops"]);
  EXPECT_LT(of_head["flops"].get<double>(), 0.4 * full["flops"].get<double>()) << "nothing goes back through the body";
}

TEST_F(Trained, T42_stopped_after_every_step_it_ends_with_the_same_bits) {
  int number = 0;
  for (const json& how : {head, lora, json{{"optimizer", {{"use", "sgd"}, {"momentum", 0.9}, {"learning_rate", 0.05}}}}}) {
    json changes = how;
    changes["budget"] = "80 examples";
    changes["dropout"] = 0.1;
    changes["unit_dropout"] = 0.2;
    const std::string whole = "whole" + std::to_string(number), parts = "parts" + std::to_string(number++);
    ASSERT_EQ(run_here(store.finetune(whole, "dense", changes)), 0) << how;
    ASSERT_EQ(run_stopped_at_every_step(store.finetune(parts, "dense", changes)), 0) << how;
    EXPECT_EQ(store.digest(parts, "model.safetensors"), store.digest(whole, "model.safetensors")) << how;
    EXPECT_EQ(store.file(parts, "series.jsonl"), store.file(whole, "series.jsonl")) << how;
  }
}

TEST_F(Trained, adapters_reach_experts_too) {
  ASSERT_EQ(run_here(store.construct("split", "dense", {{"use", "avg-k"}, {"k", 2}})), 0);
  const TensorMap before = store.tensors("split");
  ASSERT_EQ(run_here(store.finetune("tuned", "split", on_experts)), 0);
  const TensorMap after = store.tensors("tuned");
  for (const auto& name : changed(before, after))
    EXPECT_TRUE(name.find("feed_forward.in") != std::string::npos || name.find(".out") != std::string::npos ||
                name.find("router.means") != std::string::npos)
        << name;
  EXPECT_FALSE(at::equal(before.at("layer1.feed_forward.in"), after.at("layer1.feed_forward.in")));
  EXPECT_TRUE(at::equal(after.at("layer1.feed_forward.router.means"), after.at("layer1.feed_forward.in").mean(1)))
      << "the router follows the keys as they are with their adapters";
}

TEST(Adapters, gradients_agree_with_differences) {
  Architecture a;
  a.layers = 2;
  a.width = 12;
  a.heads = 3;
  a.context = 10;
  a.inner = 20;
  a.vocabulary = 17;
  Gpt model(a, {}, at::kDouble);
  model.initialise(Random(1));
  model.parameters().train_only(
      [](const auto&) { return false; },
      [](const auto& entry) { return entry.name.find(".attention.qkv") != std::string::npos && entry.spec.shape.size() == 2; },
      {2, 4}, Random(2));
  Batch batch;
  batch.spans.add(9);
  batch.tokens = testing::indices({9}, 17, 1);
  const at::Tensor targets = testing::indices({9}, 17, 2);
  const auto loss = [&] {
    ForwardContext context;
    return model.language_loss(batch, targets, context);
  };
  const double untouched = loss().item<double>();
  for (const auto& entry : model.parameters().entries()) {
    const at::NoGradGuard no_gradient;
    if (entry.adapter) entry.tensor->add_(testing::normal(entry.spec.shape, 3, at::kDouble) * 0.3);
  }
  EXPECT_GT(std::abs(loss().item<double>() - untouched), 1e-3) << "B no longer 0";
  model.parameters().zero_gradient();
  loss().backward();
  const auto value = [&] {
    const at::NoGradGuard no_gradient;
    return loss().item<double>();
  };
  int adapters = 0;
  for (const auto& entry : model.parameters().entries()) {
    if (!entry.spec.trains) continue;
    ++adapters;
    EXPECT_LT(testing::gradient_error(value, entry.tensor->detach(), entry.tensor->grad(), 6, 3), 1e-7) << entry.name;
  }
  EXPECT_EQ(adapters, 4);
}

TEST_F(Trained, plain_descent_is_the_gradient_times_the_rate) {
  const json once = {{"budget", "1 steps"},
                     {"optimizer", {{"use", "sgd"}, {"learning_rate", 0.5}, {"clip", 0.0}}},
                     {"schedule", {{"warmup", 0.0}, {"decay", "none"}}}};
  json twice_as_fast = once;
  twice_as_fast["optimizer"]["learning_rate"] = 1.0;
  ASSERT_EQ(run_here(store.pretrain_from("once", "dense", once)), 0);
  ASSERT_EQ(run_here(store.pretrain_from("fast", "dense", twice_as_fast)), 0);
  const TensorMap before = store.tensors("dense"), slow = store.tensors("once"), fast = store.tensors("fast");
  for (const auto& [name, tensor] : before)
    EXPECT_LT((2 * (slow.at(name) - tensor) - (fast.at(name) - tensor)).abs().max().item<double>(), 1e-6) << name;
  EXPECT_FALSE(at::equal(slow.at("layer0.feed_forward.in"), before.at("layer0.feed_forward.in")));
}

TEST_F(Trained, what_was_split_is_put_together_again_bit_for_bit) {
  ASSERT_EQ(run_here(store.construct("split", "dense", {{"use", "avg-k"}, {"k", 2}})), 0);
  json job = store.construct("whole", "split", {});
  job["verb"] = "recompose";
  job["config"] = json::object();
  ASSERT_EQ(run_here(job), 0);
  const TensorMap dense = store.tensors("dense"), again = store.tensors("whole");
  ASSERT_EQ(again.size(), dense.size());
  for (const auto& [name, tensor] : dense) EXPECT_TRUE(at::equal(again.at(name), tensor)) << name;
  EXPECT_EQ(store.manifest("whole")["sites"], json::array());
  EXPECT_EQ(store.manifest("whole")["position"], store.manifest("dense")["position"]);
  expect_planned(job);

  ASSERT_EQ(run_here(store.construct("copies", "dense", {{"use", "top-k"}, {"k", 1}}, {{"use", "copy"}, {"count", 2}})), 0);
  json of_copies = store.construct("none", "copies", {});
  of_copies["verb"] = "recompose";
  of_copies["config"] = json::object();
  EXPECT_EQ(run_here(of_copies), 1) << "copies are not parts";
}

TEST_F(Trained, T42_the_most_used_experts_stay_and_their_use_survives_being_stopped) {
  ASSERT_EQ(run_here(store.construct("split", "dense", {{"use", "avg-k"}, {"k", 1}})), 0);
  const json budget = {{"budget", "80 examples"}, {"micro_batch", 7}};
  ASSERT_EQ(run_here(store.finetune("tuned", "split", budget)), 0);
  ASSERT_EQ(run_stopped_at_every_step(store.finetune("parts", "split", budget)), 0);
  EXPECT_EQ(store.file("parts", "usage.json"), store.file("tuned", "usage.json"));
  const auto times = json::parse(store.file("tuned", "usage.json"))["layer1.feed_forward."].get<std::vector<std::int64_t>>();
  ASSERT_EQ(times.size(), 4U);
  std::vector<std::int64_t> order{0, 1, 2, 3};
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return times[static_cast<std::size_t>(a)] > times[static_cast<std::size_t>(b)];
  });
  std::vector<std::int64_t> best{order[0], order[1]};
  std::sort(best.begin(), best.end());

  ASSERT_EQ(run_here(pruned("two", "tuned", "tuned", 2)), 0);
  const TensorMap tuned = store.tensors("tuned"), two = store.tensors("two");
  for (const char* role : {"in", "in_bias", "out"}) {
    const std::string name = std::string("layer1.feed_forward.") + role;
    EXPECT_TRUE(at::equal(two.at(name), tuned.at(name).index_select(0, at::tensor(best, at::kLong)))) << role;
  }
  EXPECT_TRUE(at::equal(two.at("layer1.feed_forward.out_bias"), tuned.at("layer1.feed_forward.out_bias")));
  const json cost = store.manifest("two")["cost"];
  EXPECT_EQ(cost["active_parameters"], cost["total_parameters"]) << "all that stay are active";
  expect_planned(pruned("two", "tuned", "tuned", 2));
  ASSERT_EQ(run_here(store.finetune("again", "two", budget)), 0);
  ASSERT_EQ(run_here(store.evaluate("score", "again", {{"on", {"test"}}})), 0);

  EXPECT_EQ(testing::first_problem(pruned("x", "tuned", "tuned", 5)), "keep");
  EXPECT_EQ(testing::first_problem(pruned("x", "dense", "tuned", 1)), "from");
  EXPECT_EQ(run_here(pruned("y", "tuned", "dense", 2)), 1) << "the dense model's training counted no experts";
}

TEST_F(Trained, attentions_that_share_keys_and_values_are_pruned_too) {
  json job = store.construct("bam", "dense", {{"use", "top-k"}, {"k", 1}}, {{"use", "copy"}, {"count", 3}});
  job["config"]["attention"] = {{"layers", "all"},
                                {"experts", {{"use", "attention"}, {"keys_values", "shared"}, {"count", 3}}},
                                {"router", {{"use", "top-k"}, {"k", 1}}}};
  ASSERT_EQ(run_here(job), 0);
  ASSERT_EQ(run_here(store.pretrain_from("trained", "bam", {{"budget", "3 steps"}})), 0);
  for (const int keep : {1, 2}) {
    const std::string name = "keep" + std::to_string(keep);
    ASSERT_EQ(run_here(pruned(name, "trained", "trained", keep)), 0);
    expect_planned(pruned(name, "trained", "trained", keep));
    EXPECT_EQ(store.manifest(name)["position"], store.manifest("trained")["position"]) << "who trains on reads on";
    const json plan = testing::planned(store.pretrain_from("on" + name, name, {{"budget", "2 steps"}}))["cost"];
    ASSERT_EQ(run_here(store.pretrain_from("on" + name, name, {{"budget", "2 steps"}})), 0);
    EXPECT_EQ(plan["flops"], store.manifest("on" + name)["cost"]["flops"]);
  }
}

TEST_F(Trained, another_optimizer_has_no_second_moments_and_does_not_continue) {
  const json sgd = {{"optimizer", {{"use", "sgd"}, {"learning_rate", 0.05}}}, {"budget", "12 steps"}};
  json job = store.pretrain("sgd", sgd);
  job["keep_optimizer"] = true;
  ASSERT_EQ(run_here(job), 0);
  json on = store.pretrain_from("adamw", "sgd", {{"budget", "16 steps"}, {"continues", true}});
  EXPECT_EQ(run_here(on), 1) << "optimizer.use: `continues` goes on with sgd";
  json same = store.pretrain_from("same", "sgd", {{"budget", "16 steps"}, {"continues", true}});
  same["config"]["optimizer"] = sgd["optimizer"];
  EXPECT_EQ(run_here(same), 0);
  json bracket = store.pretrain("bracket", sgd);
  bracket["config"]["mixing"] = {
      {"use", "lie-bracket"}, {"every", 4}, {"batches", 2}, {"batch", 2}, {"bracket", "preconditioned"}};
  EXPECT_EQ(run_here(bracket), 1) << "there is nothing to precondition with";
  ASSERT_EQ(run_here(store.pretrain(
                "zero", {{"optimizer", {{"beta2", 0.0}}}, {"budget", "12 steps"}, {"mixing", bracket["config"]["mixing"]}})),
            0)
      << "AdamW that forgets at once has second moments";
}

TEST_F(Trained, what_cannot_be_is_told_before_the_run) {
  const auto problem = [&](const json& changes, const std::string& path) {
    EXPECT_EQ(testing::first_problem(store.finetune("x", "dense", changes)), path) << changes;
  };
  problem({{"train", {{"head", true}, {"only", {"layer1.*"}}}}}, "train");
  problem({{"optimizer", {{"use", "sgd"}, {"beta2", 0.5}}}}, "optimizer.beta2");
  problem({{"optimizer", {{"momentum", 0.5}}}}, "optimizer.momentum");
  EXPECT_EQ(testing::first_problem(store.pretrain_from("x", "dense", head)), "train") << "the read-out is the table of tokens";
  EXPECT_NE(run_here(store.finetune("y", "dense", {{"train", {{"only", {"layer7.*"}}}}})), 0);
  EXPECT_NE(run_here(store.finetune("z", "dense", {{"train", {{"lora", {{"rank", 2}, {"matrices", {"*.gain"}}}}}}})), 0);
}

TEST_F(Trained, first_tokens_may_be_left_out_of_a_measurement) {
  const auto loss = [&](const std::string& name, const json& changes) {
    json config = {{"data", json::object()}};
    config.update(changes);
    EXPECT_EQ(run_here(store.evaluate(name, "dense", config)), 0);
    return store.file(name, "series.jsonl");
  };
  const std::string all = loss("all", json::object()), later = loss("later", {{"ignore_first", 8}}),
                    some = loss("some", {{"windows", 9}});
  EXPECT_NE(all, later);
  EXPECT_NE(all, some);
  EXPECT_EQ(some, loss("tokens", {{"data", {{"tokens", 9 * 16}}}}));
  EXPECT_EQ(testing::first_problem(store.evaluate("e", "dense", {{"data", json::object()}, {"ignore_first", 16}})),
            "ignore_first");
  EXPECT_EQ(testing::first_problem(store.evaluate("e", "dense", {{"data", {{"tokens", 64}}}, {"windows", 4}})), "windows");
}

TEST_F(Trained, text_is_measured_under_labels_of_its_own) {
  const auto rows = [&](const std::string& name, const json& config) {
    EXPECT_EQ(run_here(store.evaluate(name, "dense", config)), 0);
    std::map<std::string, double> found;
    for (const auto& line : split(store.file(name, "series.jsonl"), '\n')) {
      const json row = line.empty() ? json::object() : json::parse(line);
      if (row.value("name", "") == "loss") found[row["labels"].begin().value().get<std::string>()] = row["value"].get<double>();
    }
    return found;
  };
  const auto by_domain = rows("domains", {{"data", json::object()}});
  const auto by_set = rows("sets", {{"on", {{"one", {{"domains", "domain1"}}}, {"others", {{"without", "domain1"}}}}}});
  ASSERT_EQ(by_set.size(), 2U);
  EXPECT_DOUBLE_EQ(by_set.at("one"), by_domain.at("domain1"));
  EXPECT_NE(by_set.at("others"), by_set.at("one"));
  EXPECT_EQ(testing::first_problem(store.evaluate("e", "dense", {{"on", {{"one", {{"domains", "no"}}}}}})), "on.one.domains");
  EXPECT_EQ(testing::first_problem(store.evaluate("e", "dense", {{"on", "test"}})), "on");
}

}  // namespace
}  // namespace moiety::engine
