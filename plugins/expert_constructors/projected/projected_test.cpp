#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "moiety/expert_constructor.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

using Experts = std::vector<std::int64_t>;

struct Case {
  Case(std::int64_t count, std::int64_t bank, std::int64_t code, std::int64_t width = 3, std::int64_t inner = 5) {
    projected = testing::make<ExpertConstructor>("projected", {{"count", count}, {"bank", bank}, {"code", code}});
    site.layers = 2, site.width = width, site.inner = inner, site.experts = count;
    layout = projected->bind(site, parameters);
  }
  at::Tensor& operator[](const char* name) { return parameters.weight(name); }
  std::unique_ptr<ExpertConstructor> projected;
  Site site;
  testing::TestParameters parameters{Random(7)};
  Layout layout;
};

at::Tensor feed_forward(const at::Tensor& x, const at::Tensor& in, const at::Tensor& in_bias, const at::Tensor& out) {
  return (x.matmul(in.t()) + in_bias).tanh().matmul(out.t());
}

TEST(Projected, a_matrix_is_the_combination_that_the_formula_says) {
  Case s(4, 2, 3);
  const Experts experts{3, 1, 1};
  for (const bool first : {true, false}) {
    const at::Tensor made = s.projected->weight(first ? "in" : "out", experts);
    const at::Tensor &bank = s[first ? "bank.in" : "bank.out"], &mix = s[first ? "mix_in" : "mix_out"];
    for (std::size_t i = 0; i < experts.size(); ++i) {
      at::Tensor sum = at::zeros_like(bank[0]);
      for (std::int64_t q = 0; q < 3; ++q)
        for (std::int64_t r = 0; r < 2; ++r) sum = sum + s["code"][experts[i]][q] * mix[q][r] * bank[r];
      EXPECT_TRUE(at::allclose(made[static_cast<std::int64_t>(i)], sum, 1e-5, 1e-8));
    }
  }
  EXPECT_TRUE(at::equal(s.projected->weight("in_bias", experts), s["bank.in_bias"].expand({3, 5})));
  EXPECT_THROW(s.projected->weight("q", experts), std::invalid_argument);
}

TEST(Projected, with_identities_there_are_as_many_independent_feed_forwards) {
  Case s(4, 4, 4);
  {
    const at::NoGradGuard no_gradient;
    for (const char* name : {"code", "mix_in", "mix_out"}) s[name].copy_(at::eye(4));
    s["bank.in_bias"].copy_(testing::normal({5}, Random(2)));
  }
  const at::Tensor in = s.projected->weight("in", {0, 1, 2, 3}), out = s.projected->weight("out", {0, 1, 2, 3}),
                   x = testing::normal({6, 3}, Random(1));
  for (std::int64_t n = 0; n < 4; ++n) {
    EXPECT_TRUE(at::equal(in[n], s["bank.in"][n])) << n;
    EXPECT_TRUE(at::equal(feed_forward(x, in[n], s["bank.in_bias"], out[n]),
                          feed_forward(x, s["bank.in"][n], s["bank.in_bias"], s["bank.out"][n])));
  }
  // What one of them learns from is its own slice alone.
  in[2].square().sum().backward();
  for (std::int64_t r = 0; r < 4; ++r) EXPECT_EQ(s["bank.in"].grad()[r].abs().sum().item().toDouble() > 0, r == 2) << r;
}

TEST(Projected, one_expert_alone_is_the_same_as_among_all) {
  Case s(5, 3, 4);
  const at::Tensor all = s.projected->weight("out", {0, 1, 2, 3, 4});
  for (std::int64_t n = 0; n < 5; ++n) EXPECT_TRUE(at::allclose(s.projected->weight("out", {n})[0], all[n], 1e-6, 1e-9));
}

TEST(Projected, gradients_are_those_of_finite_differences) {
  Case s(3, 2, 4);
  for (const Spec& spec : s.parameters.specs()) {
    at::Tensor& w = s.parameters.weight(spec.name);
    w = testing::normal(spec.shape, Random(11).fork(spec.name)).to(at::kDouble).requires_grad_();
  }
  const at::Tensor x = testing::normal({4, 3}, Random(1)).to(at::kDouble);
  const auto loss = [&] {
    const Experts experts{2, 0};
    const at::Tensor in = s.projected->weight("in", experts), out = s.projected->weight("out", experts),
                     bias = s.projected->weight("in_bias", experts);
    return feed_forward(x, in[0], bias[0], out[0]).square().mean() + feed_forward(x, in[1], bias[1], out[1]).sin().mean();
  };
  loss().backward();
  for (const char* name : {"code", "mix_in", "mix_out", "bank.in", "bank.out", "bank.in_bias"}) {
    const at::Tensor gradient = s[name].grad().flatten();
    const at::NoGradGuard no_gradient;
    const at::Tensor flat = s[name].view({-1});
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      const double step = 1e-6;
      flat[i] += step;
      const double above = loss().item().toDouble();
      flat[i] -= 2 * step;
      const double below = loss().item().toDouble();
      flat[i] += step;
      EXPECT_NEAR(gradient[i].item().toDouble(), (above - below) / (2 * step), 1e-7) << name << i;
    }
  }
  EXPECT_EQ(s["code"].grad()[1].abs().sum().item().toDouble(), 0) << "an expert that did not run";
}

TEST(Projected, a_fresh_expert_has_the_variance_of_a_dense_layer) {
  Case s(64, 16, 24, 8, 12);
  Experts all;
  for (std::int64_t n = 0; n < 64; ++n) all.push_back(n);
  EXPECT_NEAR(s.projected->weight("in", all).square().mean().item().toDouble() / (0.02 * 0.02), 1, 0.3);
  EXPECT_NEAR(s.projected->weight("out", all).square().mean().item().toDouble() / (0.01 * 0.01), 1, 0.3);
  EXPECT_TRUE(s.projected->expand({}, s.site).empty());
}

TEST(Projected, from_a_dense_model_every_expert_is_that_model) {
  Case s(5, 2, 3);
  const Sources sources{{{"in", testing::normal({5, 3}, Random(1))},
                         {"in_bias", testing::normal({5}, Random(2))},
                         {"out", testing::normal({3, 5}, Random(3))},
                         {"out_bias", testing::normal({3}, Random(4))}}};
  s.projected->plan(sources, s.site, nullptr, Random(0));
  const TensorMap values = s.projected->expand(sources, s.site);
  for (const Spec& spec : s.parameters.specs()) {
    ASSERT_EQ(values.at(spec.name).sizes().vec(), spec.shape) << spec.name;
    s.parameters.weight(spec.name) = values.at(spec.name);
  }
  for (const char* role : {"in", "in_bias", "out"}) {
    const at::Tensor made = s.projected->weight(role, {0, 1, 2, 3, 4});
    for (std::int64_t n = 0; n < 5; ++n) EXPECT_TRUE(at::equal(made[n], sources[0].at(role))) << role << n;
  }
  EXPECT_TRUE(at::equal(values.at("out_bias")[0], sources[0].at("out_bias")));
  // Experts 0 and 1 have slices of their own: what one learns the other does not see.
  s["bank.in"].requires_grad_();
  s.projected->weight("in", {1}).sum().backward();
  EXPECT_EQ(s["bank.in"].grad()[0].abs().sum().item().toDouble(), 0);
  EXPECT_GT(s["bank.in"].grad()[1].abs().sum().item().toDouble(), 0);
}

TEST(Projected, declares_what_it_stores_and_says_what_it_makes) {
  Case s(4, 2, 3);
  EXPECT_EQ(s.layout.derived.at("in"), (std::vector<std::int64_t>{4, 5, 3}));
  EXPECT_EQ(s.layout.derived.at("out"), (std::vector<std::int64_t>{4, 3, 5}));
  EXPECT_EQ(s.layout.derived.at("in_bias"), (std::vector<std::int64_t>{4, 5}));
  EXPECT_EQ(s.layout.derived.size(), 3U);
  EXPECT_EQ(s.layout.derive_multiply_adds, 2 * (3 * 2) + 2 * (2 * 5 * 3)) << "coefficients, then both matrices";
  for (const auto& [role, shape] : s.layout.derived)
    EXPECT_EQ(s.projected->weight(role, {0, 1, 2, 3}).sizes().vec(), shape) << role;
  for (const Spec& spec : s.parameters.specs()) {
    EXPECT_EQ(spec.shared, spec.name == "code") << spec.name;
    EXPECT_EQ(spec.per_expert, spec.name == "code") << spec.name;
    EXPECT_EQ(spec.decays, spec.name == "bank.in" || spec.name == "bank.out") << spec.name;
  }
}

TEST(Projected, what_cannot_be_is_refused) {
  Case s(4, 2, 3);
  Facts facts;
  facts.site = &s.site;
  facts.sources = 2;
  EXPECT_EQ(testing::problems_of(*s.projected, facts), ": starts from one model, but 2 are read");
  facts.sources = 1;
  s.site.place = Place::attention;
  EXPECT_EQ(testing::problems_of(*s.projected, facts), ": makes experts of feed-forwards alone");
  EXPECT_THROW(s.projected->plan({{{"in", at::zeros({4, 4})}, {"out", at::zeros({4, 4})}}}, s.site, nullptr, Random(0)),
               std::invalid_argument);
}

}  // namespace
}  // namespace moiety
