// What a model is asked for, against the usual backward pass and against differences.
#include "kernel/engine/stages/asked_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernel/engine/testing/fake_components.h"
#include "kernel/engine/testing/job_fixture.h"
#include "kernel/engine/testing/tensors.h"

namespace moiety::engine {
namespace {

using testing::TinyStore;

Architecture tiny() {
  Architecture a;
  a.layers = 2;
  a.width = 8;
  a.heads = 2;
  a.context = 6;
  a.inner = 20;
  a.vocabulary = 40;
  return a;
}

struct Bench {
  explicit Bench(bool experts, at::ScalarType type = at::kDouble)
      : corpus(*TrainingCorpus::open(store.corpus())),
        pool(corpus.streams(TrainingSplit::train), 6),
        model(tiny(), experts ? testing::two_of_four_experts(tiny()) : Sites{}, type),
        asked(model, pool, labels) {
    model.initialise(Random(1));
    // Larger numbers than GPT-2's start, so that no path is negligible.
    for (const auto& entry : model.parameters().entries()) {
      const at::NoGradGuard no_gradient;
      entry.tensor->add_(testing::normal(entry.spec.shape, std::hash<std::string>{}(entry.name), at::kDouble) * 0.2);
    }
  }
  double loss(const Windows& windows) const { return asked.token_losses(windows).to(at::kDouble).mean().item<double>(); }

  TinyStore store;
  TrainingCorpus corpus;
  WindowPool pool;
  WindowLabels labels;
  Gpt model;
  AskedModel asked;
};

const Windows some{3, 500, 41, 700};

/// The usual pass: what training adds up in the tensors' gradients.
at::Tensor usual_gradient(Bench& bench) {
  const WindowBatch packed = pack_windows(bench.pool.streams, 6, bench.pool.locate(some));
  ForwardContext forward;
  bench.model.parameters().zero_gradient();
  bench.model.language_loss(packed.batch, packed.targets, forward).backward();
  std::vector<at::Tensor> flat;
  for (const auto& entry : bench.model.parameters().entries()) flat.push_back(entry.tensor->grad().reshape({-1}).clone());
  bench.model.parameters().zero_gradient();
  return at::cat(flat);
}

TEST(AskedModel, gradients_are_those_of_training_dense_and_with_experts) {
  for (const bool experts : {false, true}) {
    Bench exact(experts), fast(experts, at::kFloat);
    const at::Tensor expected = usual_gradient(exact), found = exact.asked.gradient(some, {}, "all");
    EXPECT_LT((found - expected).abs().max().item<double>(), 1e-13);
    EXPECT_LT((fast.asked.gradient(some, {}, "all").to(at::kDouble) - expected).abs().max().item<double>(), 1e-5);
    EXPECT_EQ(exact.model.parameters().flat_gradient().abs().max().item<double>(), 0) << "nothing is left behind";
    EXPECT_EQ(exact.asked.size("all"), expected.numel());
  }
}

TEST(AskedModel, gradients_of_windows_add_up_to_the_gradient) {
  const Bench bench(true);
  const at::Tensor rows = bench.asked.example_gradients(some, "body");
  ASSERT_EQ(rows.size(0), 4);
  EXPECT_LT((rows.mean(0) - bench.asked.gradient(some, {}, "body")).abs().max().item<double>(), 1e-14);
  const at::Tensor weights = testing::normal({4}, 3, at::kDouble);
  EXPECT_LT((rows.t().matmul(weights) - bench.asked.gradient(some, weights, "body")).abs().max().item<double>(), 1e-13);
}

TEST(AskedModel, more_windows_than_are_computed_at_once) {
  const Bench bench(false);
  Windows many;
  for (std::int64_t i = 0; i < 37; ++i) many.push_back(11 * i);
  const at::Tensor rows = bench.asked.example_gradients(many, "layer1.attention");
  EXPECT_LT((rows.mean(0) - bench.asked.gradient(many, {}, "layer1.attention")).abs().max().item<double>(), 1e-14);
  EXPECT_EQ(bench.asked.token_losses(many).sizes(), at::IntArrayRef({37, 6}));
}

TEST(AskedModel, products_with_the_hessian_agree_with_central_differences) {
  for (const bool experts : {false, true}) {
    Bench bench(experts);
    for (const char* scope : {"all", "layer1", "body"}) {
      const at::Tensor v = testing::normal({bench.asked.size(scope)}, 7, at::kDouble);
      const at::Tensor weights = testing::normal({4}, 3, at::kDouble);
      const at::Tensor product = bench.asked.hessian_product(some, weights, v, scope);
      // The gradient at two displaced points: the tensors are moved here, by hand.
      const double step = 1e-6;
      const auto gradient_at = [&](double by) {
        const at::NoGradGuard no_gradient;
        std::int64_t at = 0;
        for (const auto& name : bench.asked.tensors(scope)) {
          at::Tensor tensor = *bench.model.parameters().find(name)->tensor;
          tensor.add_(v.narrow(0, at, tensor.numel()).view(tensor.sizes()), by);
          at += tensor.numel();
        }
        return bench.asked.gradient(some, weights, scope);
      };
      const at::Tensor above = gradient_at(step), below = gradient_at(-2 * step);
      gradient_at(step);
      const at::Tensor difference = (above - below) / (2 * step);
      EXPECT_LT((product - difference).norm().item<double>(), 1e-6 * difference.norm().item<double>()) << scope << experts;
    }
  }
}

TEST(AskedModel, the_hessian_is_symmetric_in_single_precision_too) {
  const Bench bench(true, at::kFloat);
  const at::Tensor u = testing::normal({bench.asked.size("body")}, 7), v = testing::normal({bench.asked.size("body")}, 8);
  const double uv = bench.asked.hessian_product(some, {}, v, "body").dot(u).item<double>(),
               vu = bench.asked.hessian_product(some, {}, u, "body").dot(v).item<double>();
  EXPECT_NEAR(uv, vu, 1e-3 * (1 + std::abs(uv)));
}

TEST(AskedModel, a_displaced_loss_is_that_of_the_moved_model_and_leaves_no_trace) {
  Bench bench(true, at::kFloat);
  const at::Tensor before = bench.model.parameters().flat_values().clone();
  const auto version = bench.model.parameters().find("layer0.attention.qkv")->tensor->_version();
  const at::Tensor offset = testing::normal({bench.asked.size("layer0")}, 9) * 1e-3;
  const double displaced = bench.asked.displaced_loss(some, offset, "layer0"), rest = bench.loss(some);
  EXPECT_NE(displaced, rest);
  EXPECT_NEAR(displaced - rest, bench.asked.gradient(some, {}, "layer0").dot(offset).item<double>(), 1e-3);
  EXPECT_EQ(bench.asked.displaced_loss(some, offset * 0, "layer0"), rest);
  EXPECT_TRUE(at::equal(before, bench.model.parameters().flat_values()));
  EXPECT_EQ(version, bench.model.parameters().find("layer0.attention.qkv")->tensor->_version());
  EXPECT_THROW(bench.asked.displaced_loss({1, 100000}, offset, "layer0"), std::out_of_range);
  EXPECT_TRUE(at::equal(before, bench.model.parameters().flat_values())) << "also when it fails";
}

TEST(AskedModel, scopes_name_tensors_in_their_order) {
  const Bench bench(true);
  EXPECT_EQ(bench.asked.tensors("embedding"), (std::vector<std::string>{"embedding.tokens", "embedding.positions"}));
  EXPECT_EQ(bench.asked.size("body") + bench.asked.size("embedding"), bench.asked.size("all"));
  EXPECT_EQ(bench.asked.tensors("layer0.attention.qkv").size(), 1U);
  EXPECT_EQ(bench.asked.size("layer0"), bench.asked.size("layer0.attention") + bench.asked.size("layer0.feed_forward"));
  EXPECT_THROW(bench.asked.tensors("layer7"), std::invalid_argument);
  EXPECT_THROW(bench.asked.gradient({}, {}, "all"), std::invalid_argument);
}

}  // namespace
}  // namespace moiety::engine
