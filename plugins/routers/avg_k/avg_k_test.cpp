#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "moiety_testing/testing.h"

namespace moiety {
namespace {

using testing::make;
using testing::TestBank;
using testing::TestParameters;

constexpr std::int64_t top = 0, bottom = 1, not_top = 2, random_k = 3, fixed_k = 4;

struct Case {
  explicit Case(std::int64_t k, std::int64_t rule = top)
      : bank({{"in", testing::normal({4, 6, 3}, Random(1)).requires_grad_()}}) {
    site.width = 3, site.experts = 4, site.inner = 24;
    router = make<Router>("avg-k", {{"k", k}, {"rule", rule}});
    router->bind(site, parameters, bank);
    router->prepare(nullptr, Random(0));
    input.hidden = testing::normal({2, 50, 3}, Random(2));
  }
  Site site;
  TestParameters parameters;
  TestBank bank;
  std::unique_ptr<Router> router;
  RouterInput input;
};

TEST(AvgK, scores_are_mean_preactivations_without_bias) {
  Case s(2);
  const Routing r = s.router->route(s.input);
  // The block form of the paper: all pre-activations, averaged over an expert's neurons.
  const at::Tensor scores =
      s.input.hidden.view({100, 3}).matmul(s.bank.keys().detach().view({24, 3}).t()).view({100, 4, 6}).mean(2);
  EXPECT_TRUE(at::equal(r.experts, std::get<1>(scores.topk(2, 1))));
  EXPECT_FALSE(r.weights.defined()) << "a chosen expert counts with exactly 1";
}

TEST(AvgK, gate_follows_the_keys_bit_for_bit_after_every_step) {
  Case s(2);
  for (int step = 0; step < 20; ++step) {
    s.bank.keys().detach().add_(testing::normal({4, 6, 3}, Random(9).fork(static_cast<std::uint64_t>(step)), 0.1));
    EXPECT_FALSE(at::equal(s.parameters.weight("means"), s.bank.keys().mean(1)));
    s.router->after_step({step, {}, {}});
    EXPECT_TRUE(at::equal(s.parameters.weight("means"), s.bank.keys().mean(1)));
  }
}

TEST(AvgK, gate_neither_trains_nor_asks_for_gradients) {
  Case s(2);
  ASSERT_EQ(s.parameters.specs().size(), 1U);
  EXPECT_FALSE(s.parameters.specs()[0].trains);
  s.input.hidden.requires_grad_();
  const Routing r = s.router->route(s.input);
  EXPECT_FALSE(s.parameters.weight("means").requires_grad());
  EXPECT_FALSE(r.experts.requires_grad());
  EXPECT_TRUE(r.losses.empty());
}

TEST(AvgK, bottom_and_not_top_are_the_other_experts) {
  Case best(2), worst(2, bottom), others(1, not_top);
  const at::Tensor t = best.router->route(best.input).experts, b = worst.router->route(best.input).experts;
  for (std::int64_t row = 0; row < 100; ++row) {
    std::vector<bool> seen(4, false);
    for (const at::Tensor& chosen : {t, b}) {
      for (std::int64_t i = 0; i < 2; ++i) {
        const auto expert = static_cast<std::size_t>(chosen[row][i].item().toLong());
        EXPECT_FALSE(seen[expert]) << "best two and worst two of four meet";
        seen[expert] = true;
      }
    }
  }
  const at::Tensor rest = others.router->route(best.input).experts;
  EXPECT_EQ(rest.sizes().vec(), (std::vector<std::int64_t>{100, 3}));
  EXPECT_FALSE(rest.eq(t.narrow(1, 0, 1)).any().item().toBool()) << "the best expert is among the others";
  EXPECT_EQ(others.router->cost(best.site).experts_per_row, 3);
  EXPECT_EQ(best.router->cost(best.site).experts_per_row, 2);
}

TEST(AvgK, random_experts_are_drawn_for_every_token_and_fixed_ones_once) {
  Case drawn(2, random_k), fixed(2, fixed_k);
  drawn.input.random = Random(5);
  const at::Tensor a = drawn.router->route(drawn.input).experts, again = drawn.router->route(drawn.input).experts;
  EXPECT_TRUE(at::equal(a, again)) << "a function of the stream";
  drawn.input.random = Random(6);
  EXPECT_FALSE(at::equal(a, drawn.router->route(drawn.input).experts));
  EXPECT_FALSE(a.select(1, 0).eq(a.select(1, 1)).any().item().toBool()) << "two different ones";
  std::vector<int> times(4, 0);
  for (std::int64_t i = 0; i < a.numel(); ++i) ++times[static_cast<std::size_t>(a.flatten()[i].item().toLong())];
  for (const int count : times) EXPECT_NEAR(count, 50, 25) << "each of four experts, 200 places";

  const at::Tensor b = fixed.router->route(fixed.input).experts;
  EXPECT_TRUE(at::equal(b, b[0].expand({100, 2})));
  bool another = false;
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    fixed.router->prepare(nullptr, Random(seed));
    another = another || !at::equal(fixed.router->route(fixed.input).experts, b);
  }
  EXPECT_TRUE(another) << "the seed chooses";
}

TEST(AvgK, fixed_experts_are_kept) {
  Case made(2, fixed_k);
  made.router->prepare(nullptr, Random(3));
  testing::TestArchive archive;
  made.router->state(archive);
  Case read(2, fixed_k);
  read.router->prepare(nullptr, Random(4));
  archive.rewind();
  read.router->state(archive);
  EXPECT_TRUE(at::equal(read.router->route(read.input).experts, made.router->route(made.input).experts));
}

TEST(AvgK, balance_is_1_for_even_use_and_trains_keys_and_tokens_when_it_counts) {
  Case s(2);
  s.input.training = true;
  EXPECT_TRUE(s.router->route(s.input).losses.empty()) << "nobody wants it";
  s.input.wants_losses = true;
  s.input.hidden.requires_grad_();
  const Routing r = s.router->route(s.input);
  ASSERT_EQ(r.losses.size(), 1U);
  const at::Tensor scores = s.input.hidden.view({100, 3}).matmul(s.bank.keys().mean(1).t()), p = scores.softmax(1).mean(0);
  at::Tensor share = at::zeros({4});
  for (std::int64_t i = 0; i < 200; ++i) share[r.experts.flatten()[i].item().toLong()] += 1.0 / 200;
  EXPECT_NEAR(r.losses[0].second.item().toDouble(), 4 * (share * p).sum().item().toDouble(), 1e-5);
  r.losses[0].second.backward();
  EXPECT_GT(s.input.hidden.grad().abs().sum().item().toDouble(), 0);
  EXPECT_GT(s.bank.keys().grad().abs().sum().item().toDouble(), 0);

  Case even(2);
  even.input.wants_losses = true;
  even.input.hidden.zero_();
  even.input.mask = at::ones({2, 50}, at::kBool);
  even.input.mask.narrow(1, 10, 40).fill_(false);
  EXPECT_NEAR(even.router->route(even.input).losses[0].second.item().toDouble(), 1, 1e-6) << "equal probabilities, some padding";
}

TEST(AvgK, equal_scores_choose_the_lower_index) {
  for (const std::int64_t rule : {top, bottom}) {
    Case s(2, rule);
    s.input.hidden.zero_();
    EXPECT_TRUE(at::equal(s.router->route(s.input).experts, at::tensor({0, 1}, at::kLong).expand({100, 2})));
  }
}

TEST(AvgK, route_leaves_everything_as_it_was) {
  Case s(2);
  s.bank.keys().detach().add_(1);  // as between the optimizer's step and after_step
  const at::Tensor before = s.parameters.weight("means").clone();
  const at::Tensor first = s.router->route(s.input).experts, second = s.router->route(s.input).experts;
  EXPECT_TRUE(at::equal(first, second));
  EXPECT_TRUE(at::equal(before, s.parameters.weight("means")));
}

TEST(AvgK, impossible_k_is_refused) {
  Case s(1);
  Facts facts;
  facts.site = &s.site;
  const auto message = [&](std::int64_t k, std::int64_t rule) {
    Problems problems;
    make<Router>("avg-k", {{"k", k}, {"rule", rule}})->check(facts, problems);
    return problems.list().empty() ? "" : problems.list()[0].message;
  };
  EXPECT_EQ(message(5, top), "is 5, but there are 4 experts");
  EXPECT_EQ(message(4, not_top), "is all 4 experts, so that none is left to run with rule not-top");
  EXPECT_EQ(message(4, top), "");
  facts.site = nullptr;
  EXPECT_EQ(message(5, top), "") << "unknown is not wrong";
}

}  // namespace
}  // namespace moiety
