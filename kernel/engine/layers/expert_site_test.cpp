// The block-masked form of an expert site against a loop over experts, and what happens to a Routing that cannot be.
#include "kernel/engine/layers/expert_site.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernel/engine/testing/fake_components.h"
#include "kernel/engine/testing/tensors.h"

namespace moiety::engine {
namespace {

using testing::FakeConstructor;
using testing::FakeRouter;
using testing::normal;

constexpr std::int64_t rows = 9, n = 4, s = 5, d = 6;

struct Bench {
  explicit Bench(FakeRouter::Route route, bool biases = true, bool own_out_bias = false, at::ScalarType type = at::kDouble)
      : Bench(FakeRouter{std::move(route)}, biases, own_out_bias, type) {}
  Bench(FakeRouter router, bool biases, bool own_out_bias, at::ScalarType type) : store(type) {
    Site site;
    site.layers = 1;
    site.width = d;
    site.inner = n * s;
    site.experts = n;
    expert_site = std::make_unique<ExpertSite>(
        site, testing::instance<FakeConstructor>("expert_constructor", FakeConstructor{s, biases, own_out_bias}),
        testing::instance<FakeRouter>("router", std::move(router)));
    expert_site->bind(store, "");
    store.allocate();
    store.initialise(Random(5));
    spans.add(rows);
  }
  at::Tensor run(const at::Tensor& x) {
    ForwardContext context;
    context.training = true;
    return expert_site->forward(x, spans, context);
  }
  at::Tensor role(const char* name) const { return store.find(name) != nullptr ? *store.find(name)->tensor : at::Tensor(); }

  /// Expert by expert and row by row: Σ weight · (GELU(x Inᵀ + b) Outᵀ + c).
  at::Tensor loop(const at::Tensor& x, const Routing& routing) const {
    const at::Tensor in = role("in"), out = role("out"), in_bias = role("in_bias"), out_bias = role("out_bias");
    const bool shared = out_bias.defined() && out_bias.size(0) == 1;
    std::vector<at::Tensor> result;
    for (std::int64_t r = 0; r < rows; ++r) {
      at::Tensor sum = at::zeros({d}, x.options());
      const auto add = [&](std::int64_t expert, const at::Tensor& weight) {
        at::Tensor hidden = in[expert].matmul(x[r]);
        if (in_bias.defined()) hidden = hidden + in_bias[expert];
        at::Tensor y = out[expert].matmul(at::gelu(hidden, "tanh"));
        if (out_bias.defined() && !shared) y = y + out_bias[expert];
        sum = sum + (weight.defined() ? weight * y : y);
      };
      if (routing.experts.defined()) {
        for (std::int64_t k = 0; k < routing.experts.size(1); ++k) {
          const auto expert = routing.experts[r][k].item<std::int64_t>();
          if (expert >= 0) add(expert, routing.weights.defined() ? routing.weights[r][k] : at::Tensor());
        }
      } else {
        for (std::int64_t expert = 0; expert < n; ++expert)
          add(expert, routing.weights.defined() ? routing.weights[r][expert] : at::Tensor());
      }
      result.push_back(shared ? sum + out_bias[0] : sum);
    }
    return at::stack(result);
  }

  ParameterStore store;
  std::unique_ptr<ExpertSite> expert_site;
  Spans spans;
};

/// Two different experts a row, a few empty places.
at::Tensor some_experts() {
  at::Tensor experts = at::empty({rows, 2}, at::kLong);
  for (std::int64_t r = 0; r < rows; ++r) {
    experts[r][0] = r % n;
    experts[r][1] = r % 3 == 0 ? -1 : (r + 1) % n;
  }
  return experts;
}

TEST(ExpertSite, all_four_meanings_equal_a_loop_over_experts) {
  for (const bool biases : {false, true}) {
    for (const bool own : {false, true}) {
      for (int meaning = 0; meaning < 4; ++meaning) {
        at::Tensor weights = normal({rows, meaning == 0 ? 2 : n}, 3, at::kDouble).requires_grad_(true);
        const auto routing = [&] {
          Routing r;
          if (meaning < 2) r.experts = some_experts();
          if (meaning == 0 || meaning == 2) r.weights = weights;
          return r;
        };
        Bench bench([&](const RouterInput&) { return routing(); }, biases, own);
        at::Tensor x = normal({rows, d}, 4, at::kDouble).requires_grad_(true);
        const at::Tensor upstream = normal({rows, d}, 7, at::kDouble);
        const auto gradients = [&](const at::Tensor& y) {
          bench.store.zero_gradient();
          x.mutable_grad() = at::Tensor();
          weights.mutable_grad() = at::Tensor();
          (y * upstream).sum().backward();
          std::vector<at::Tensor> list{x.grad().clone(), bench.store.flat_gradient().clone()};
          if (weights.grad().defined()) list.push_back(weights.grad().clone());
          return list;
        };
        const at::Tensor y = bench.run(x), reference = bench.loop(x, routing());
        EXPECT_LT((y - reference).abs().max().item<double>(), 1e-13);
        const auto fast = gradients(y), plain = gradients(reference);
        ASSERT_EQ(fast.size(), plain.size());
        for (std::size_t i = 0; i < fast.size(); ++i)
          EXPECT_LT((fast[i] - plain[i]).abs().max().item<double>(), 1e-13) << meaning << " " << i;
      }
    }
  }
}

TEST(ExpertSite, an_expert_nobody_runs_gets_exactly_no_gradient) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    Bench bench(
        [&](const RouterInput&) {
          Routing r;
          r.experts = at::ones({rows, 1}, at::kLong);  // everyone runs expert 1
          return r;
        },
        true, true, type);
    bench.run(normal({rows, d}, 4, type)).sum().backward();
    for (const char* role : {"in", "in_bias", "out", "out_bias"}) {
      const at::Tensor gradient = bench.role(role).grad();
      for (std::int64_t expert = 0; expert < n; ++expert)
        EXPECT_EQ(gradient[expert].abs().max().item<double>() != 0, expert == 1) << role << " " << expert;
    }
  }
}

TEST(ExpertSite, a_sequence_router_sees_padded_sequences_and_its_rows_count_for_all_their_tokens) {
  // Sequences of 2, 4 and 3 tokens; sequence i runs expert i with weight 0.5 · (i + 1).
  const std::vector<std::int64_t> lengths{2, 4, 3};
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    std::vector<Observed> handed;
    FakeRouter told([&](const RouterInput& in) {
      EXPECT_EQ(in.hidden.sizes().vec(), (std::vector<std::int64_t>{3, 4, d}));
      EXPECT_TRUE(at::equal(in.mask.sum(1), at::tensor({2, 4, 3}, at::kLong)));
      EXPECT_EQ(in.hidden[0].narrow(0, 2, 2).abs().sum().item<double>(), 0);
      Routing r;
      r.experts = at::arange(3, at::kLong).unsqueeze(1);
      r.weights = (at::arange(3, at::kDouble).unsqueeze(1) + 1).to(type) * 0.5;
      r.observed = in.hidden.sum(1);
      return r;
    });
    told.rows = Rows::sequence;
    told.after_step = [&](const Observed& seen) { handed.push_back(seen); };
    Bench bench(std::move(told), true, true, type);
    bench.spans = Spans();
    for (const std::int64_t length : lengths) bench.spans.add(length);
    const at::Tensor x = normal({rows, d}, 4, type), y = bench.run(x);
    Routing by_token;
    by_token.experts = at::tensor({0, 0, 1, 1, 1, 1, 2, 2, 2}, at::kLong).unsqueeze(1);
    by_token.weights = (by_token.experts.to(type) + 1) * 0.5;
    EXPECT_LT((y - bench.loop(x, by_token)).abs().max().item<double>(), type == at::kDouble ? 1e-13 : 1e-5);
    EXPECT_TRUE(bench.expert_site->by_sequence());

    bench.run(x + 1);  // a second micro-batch
    bench.expert_site->after_step(7);
    bench.expert_site->after_step(8);
    ASSERT_EQ(handed.size(), 2U);
    EXPECT_EQ(handed[0].step, 7);
    EXPECT_TRUE(at::equal(handed[0].experts.flatten(), at::tensor({0, 1, 2, 0, 1, 2}, at::kLong)));
    EXPECT_LT((handed[0].observed[1] - x.narrow(0, 2, 4).sum(0)).abs().max().item<double>(), 1e-5);
    EXPECT_LT((handed[0].observed[4] - x.narrow(0, 2, 4).sum(0) - 4).abs().max().item<double>(), 1e-5);
    EXPECT_FALSE(handed[1].observed.defined()) << "handed over once";
  }
}

TEST(ExpertSite, a_routing_that_cannot_be_names_component_and_function) {
  const auto refused = [](const Routing& routing, const at::Tensor& x, const std::string& text) {
    Bench bench([&](const RouterInput&) { return routing; });
    try {
      bench.run(x);
      ADD_FAILURE() << "was taken: " << text;
    } catch (const ComponentFailure& failure) {
      EXPECT_EQ(failure.component(), "router/fake@1");
      EXPECT_EQ(failure.function(), "route");
      EXPECT_NE(failure.text().find(text), std::string::npos) << failure.text();
    }
  };
  const at::Tensor x = normal({rows, d}, 1, at::kDouble);
  Routing r;
  r.experts = at::zeros({rows - 1, 2}, at::kLong);
  refused(r, x, "experts are [8, 2], not [9, k]");
  r.experts = at::zeros({rows, 2}, at::kInt);
  refused(r, x, "not int64");
  r.experts = at::full({rows, 1}, n, at::kLong);
  refused(r, x, "expert 4 of 4");
  r.experts = at::full({rows, 1}, -2, at::kLong);
  refused(r, x, "expert -2 of 4");
  r.experts = at::zeros({rows, 2}, at::kLong);
  r.weights = at::zeros({rows, 3}, at::kDouble);
  refused(r, x, "weights are [9, 3], not [9, 2]");
  r.weights = at::full({rows, 2}, std::numeric_limits<double>::quiet_NaN(), at::kDouble);
  refused(r, x, "weights are not finite although the input is");
  r.experts = at::Tensor();
  r.weights = at::zeros({rows, n}, at::kLong);
  refused(r, x, "not floating-point");
  // With an input that is broken already it is not the router's fault.
  r.weights = at::full({rows, n}, std::numeric_limits<double>::quiet_NaN(), at::kDouble);
  Bench bench([&](const RouterInput&) { return r; });
  EXPECT_NO_THROW(bench.run(x * std::numeric_limits<double>::infinity()));
}

TEST(ExpertSite, losses_of_a_router_are_weighted_and_must_be_declared) {
  Bench bench([&](const RouterInput& in) {
    Routing r;
    r.losses.emplace_back("balance", in.hidden.square().mean());
    return r;
  });
  const at::Tensor x = normal({rows, d}, 1, at::kDouble);
  EXPECT_THROW(bench.run(x), ComponentFailure);

  Site site = bench.expert_site->site();
  Instance router = testing::instance<FakeRouter>("router", FakeRouter{[](const RouterInput& in) {
                                                    Routing r;
                                                    r.losses.emplace_back("balance", in.hidden.square().mean());
                                                    return r;
                                                  }});
  router.loss_weights["balance"] = 0.5;
  ExpertSite weighted(site, testing::instance<FakeConstructor>("expert_constructor", FakeConstructor{s, true, false}),
                      std::move(router));
  ParameterStore store(at::kDouble);
  weighted.bind(store, "");
  store.allocate();
  ForwardContext context;
  context.training = true;
  weighted.forward(x, bench.spans, context);
  ASSERT_EQ(context.losses.size(), 1U);
  EXPECT_NEAR(context.losses[0].item<double>(), 0.5 * x.square().mean().item<double>(), 1e-12);
  EXPECT_TRUE(weighted.has_losses());
}

TEST(ExpertSite, a_bank_of_the_wrong_shape_names_the_constructor) {
  Site site;
  site.layers = 1;
  site.width = d;
  site.inner = n * s;
  site.experts = n + 1;
  FakeConstructor wrong{s, true, false};
  wrong.experts = n;
  ExpertSite expert_site(site, testing::instance<FakeConstructor>("expert_constructor", std::move(wrong)),
                         testing::instance<FakeRouter>("router", FakeRouter{[](const RouterInput&) { return Routing{}; }}));
  ParameterStore store;
  EXPECT_THROW(expert_site.bind(store, ""), ComponentFailure);
}

}  // namespace
}  // namespace moiety::engine
