#include "kernel/engine/model/gpt.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernel/engine/model/cost.h"
#include "kernel/engine/numerics/cross_entropy.h"
#include "kernel/engine/testing/exact_gradients.h"
#include "kernel/engine/testing/fake_components.h"
#include "kernel/engine/testing/tensors.h"

namespace moiety::engine {
namespace {

using testing::FakeConstructor;
using testing::FakeRouter;

Architecture small(std::int64_t classes = 0) {
  Architecture a;
  a.layers = 2;
  a.width = 12;
  a.heads = 3;
  a.context = 10;
  a.inner = 20;
  a.vocabulary = 17;
  a.classes = classes;
  return a;
}

Batch batch_of(const std::vector<std::int64_t>& lengths, std::uint64_t seed = 1) {
  Batch batch;
  for (const std::int64_t length : lengths) batch.spans.add(length);
  batch.tokens = testing::indices({batch.spans.rows()}, 17, seed);
  return batch;
}

TEST(Gpt, gradients_of_the_language_loss_agree_with_differences) {
  for (const bool experts : {false, true}) {
    Gpt model(small(), experts ? testing::two_of_four_experts(small()) : Sites{}, at::kDouble);
    model.initialise(Random(1));
    const Batch batch = batch_of({10, 10, 4});
    const at::Tensor targets = testing::indices({24}, 17, 2);
    testing::expect_exact_gradients(model, [&] {
      ForwardContext context;
      context.training = true;
      return model.language_loss(batch, targets, context);
    });
  }
}

TEST(Gpt, gradients_of_the_class_loss_agree_with_differences) {
  for (const bool experts : {false, true}) {
    Gpt model(small(3), experts ? testing::two_of_four_experts(small(3)) : Sites{}, at::kDouble);
    model.initialise(Random(1));
    const Batch batch = batch_of({7, 1, 4});
    const at::Tensor labels = testing::indices({3}, 3, 2);
    testing::expect_exact_gradients(model, [&] {
      ForwardContext context;
      context.training = true;
      return at::nll_loss(at::log_softmax(model.class_logits(batch, context), 1), labels);
    });
  }
}

TEST(Gpt, float_model_agrees_with_the_double_one) {
  for (const bool experts : {false, true}) {
    Gpt fast(small(3), experts ? testing::two_of_four_experts(small(3)) : Sites{}),
        exact(small(3), experts ? testing::two_of_four_experts(small(3)) : Sites{}, at::kDouble);
    fast.initialise(Random(1));
    exact.initialise(Random(1));
    const Batch batch = batch_of({10, 5, 1});
    const at::Tensor targets = testing::indices({16}, 17, 2);
    ForwardContext a, b;
    const at::Tensor x = fast.language_loss(batch, targets, a), y = exact.language_loss(batch, targets, b);
    EXPECT_NEAR(x.item<double>(), y.item<double>(), 1e-6);
    x.backward();
    y.backward();
    const double scale = exact.parameters().flat_gradient().abs().max().item<double>();
    EXPECT_LT((fast.parameters().flat_gradient().to(at::kDouble) - exact.parameters().flat_gradient()).abs().max().item<double>(),
              1e-5 * scale);
  }
}

TEST(Gpt, the_present_does_not_see_the_future) {
  for (const bool experts : {false, true}) {
    Gpt model(small(), experts ? testing::two_of_four_experts(small()) : Sites{});
    model.initialise(Random(1));
    Batch batch = batch_of({10});
    ForwardContext context;
    const at::NoGradGuard no_gradient;
    const at::Tensor before = model.hidden(batch, context);
    batch.tokens[6] = (batch.tokens[6] + 1) % 17;
    const at::Tensor after = model.hidden(batch, context);
    EXPECT_TRUE(at::equal(before.narrow(0, 0, 6), after.narrow(0, 0, 6)));
    EXPECT_FALSE(at::equal(before.narrow(0, 6, 4), after.narrow(0, 6, 4)));
  }
}

TEST(Gpt, packed_sequences_are_what_each_is_alone_and_the_last_row_is_the_last_of_all) {
  Gpt model(small(), testing::two_of_four_experts(small()));
  model.initialise(Random(1));
  const Batch batch = batch_of({4, 9, 1});
  ForwardContext context;
  const at::NoGradGuard no_gradient;
  const at::Tensor together = model.hidden(batch, context), last = model.last_hidden(batch, context);
  for (std::int64_t i = 0; i < 3; ++i) {
    Batch alone;
    alone.spans.add(batch.spans.length(i));
    alone.tokens = batch.tokens.narrow(0, batch.spans.begin(i), batch.spans.length(i)).clone();
    const at::Tensor single = model.hidden(alone, context);
    EXPECT_LT((single - together.narrow(0, batch.spans.begin(i), batch.spans.length(i))).abs().max().item<double>(), 1e-5);
    EXPECT_LT((single[single.size(0) - 1] - last[i]).abs().max().item<double>(), 1e-5);
  }
}

TEST(Gpt, accumulated_micro_batches_are_one_batch) {
  Gpt model(small(), {});
  model.initialise(Random(1));
  const Batch whole = batch_of({10, 10, 10, 10});
  const at::Tensor targets = testing::indices({40}, 17, 2);
  ForwardContext context;
  model.language_loss(whole, targets, context).backward();
  const at::Tensor once = model.parameters().flat_gradient().clone();
  model.parameters().zero_gradient();
  for (std::int64_t i = 0; i < 4; ++i) {
    Batch part;
    part.spans.add(10);
    part.tokens = whole.tokens.narrow(0, 10 * i, 10).clone();
    (model.language_loss(part, targets.narrow(0, 10 * i, 10).clone(), context) * 0.25).backward();
  }
  EXPECT_LT((model.parameters().flat_gradient() - once).abs().max().item<double>(), 1e-6);
}

TEST(Gpt, starts_like_gpt_2) {
  Architecture a = small();
  a.width = 96;
  a.inner = 384;
  Gpt model(a, {});
  model.initialise(Random(1));
  const auto deviation = [&](const char* name) { return model.parameters().find(name)->tensor->std().item<double>(); };
  EXPECT_NEAR(deviation("embedding.tokens"), 0.02, 0.002);
  EXPECT_NEAR(deviation("layer0.feed_forward.in"), 0.02, 0.001);
  EXPECT_NEAR(deviation("layer1.feed_forward.out"), 0.01, 0.0005);
  EXPECT_NEAR(deviation("layer1.attention.output"), 0.01, 0.0005);
  EXPECT_EQ(deviation("final_norm.gain"), 0);
  Gpt again(a, {});
  again.initialise(Random(1));
  EXPECT_TRUE(at::equal(model.parameters().flat_values(), again.parameters().flat_values()));
  again.initialise(Random(2));
  EXPECT_FALSE(at::equal(model.parameters().flat_values(), again.parameters().flat_values()));
}

TEST(Gpt, dropout_depends_on_the_stream_and_only_in_training) {
  Gpt model(small(), {});
  model.initialise(Random(1));
  const Batch batch = batch_of({10});
  const auto run = [&](bool training, std::uint64_t stream) {
    ForwardContext context;
    context.training = training;
    context.dropout = 0.3;
    context.random = Random(stream);
    const at::NoGradGuard no_gradient;
    return model.hidden(batch, context);
  };
  EXPECT_TRUE(at::equal(run(true, 1), run(true, 1)));
  EXPECT_FALSE(at::equal(run(true, 1), run(true, 2)));
  EXPECT_TRUE(at::equal(run(false, 1), run(false, 2)));
}

TEST(Gpt, unit_dropout_silences_neurons_of_dense_feed_forwards_in_training) {
  Gpt model(small(), {});
  model.initialise(Random(1));
  testing::stir(model);
  const Batch batch = batch_of({10});
  const auto run = [&](bool training, double share, std::uint64_t stream) {
    ForwardContext context;
    context.training = training;
    context.unit_dropout = share;
    context.random = Random(stream);
    const at::NoGradGuard no_gradient;
    return model.hidden(batch, context);
  };
  const at::Tensor all = run(false, 0, 1);
  EXPECT_TRUE(at::equal(run(true, 0, 1), all));
  EXPECT_TRUE(at::equal(run(false, 0.5, 1), all));
  EXPECT_TRUE(at::equal(run(true, 0.5, 1), run(true, 0.5, 1)));
  EXPECT_FALSE(at::equal(run(true, 0.5, 1), run(true, 0.5, 2)));
  EXPECT_FALSE(at::equal(run(true, 0.5, 1), all));
}

TEST(Cost, counts_what_is_declared) {
  const Architecture a = small(3);
  Gpt dense(a, {});
  EXPECT_EQ(dense_facts(a).total, static_cast<double>(dense.parameters().total()));
  const PlannedModel facts = facts_of(dense);
  EXPECT_EQ(facts.active, facts.total);
  // By hand: per token and layer 4·12² + 2·12·20; pairs 55 a window; read-out 17·12.
  Work work;
  work.add_sequences(2, 10);
  work.language_read_outs = 20;
  EXPECT_DOUBLE_EQ(forward_flops(facts, work), 2 * (20 * 2 * (4 * 144 + 480.0) + 2 * 12 * 110 * 2 + 12 * 17 * 20));
  EXPECT_DOUBLE_EQ(training_flops(facts, work), 3 * forward_flops(facts, work));
  Gpt sparse(a, testing::two_of_four_experts(a));
  const PlannedModel half = facts_of(sparse);
  EXPECT_EQ(half.total, static_cast<double>(sparse.parameters().total()));
  // Two of four experts run: half of their numbers are idle.
  EXPECT_DOUBLE_EQ(half.total - half.active, 0.5 * (4 * 5 * 12 * 2 + 4 * 5 + 4 * 12));
  EXPECT_DOUBLE_EQ(forward_flops(facts, work) - forward_flops(half, work), 2 * 20 * 480 * 0.5);
}

}  // namespace
}  // namespace moiety::engine
