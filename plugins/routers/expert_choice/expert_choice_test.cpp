#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "moiety_testing/testing.h"

namespace moiety {
namespace {

struct Case {
  explicit Case(double capacity_factor, std::int64_t windows = 3, std::int64_t length = 7) {
    site.width = 3, site.experts = 4;
    router = testing::make<Router>("expert-choice", {{"capacity_factor", capacity_factor}});
    router->bind(site, parameters, testing::TestBank({}));
    parameters.weight("gate").detach().mul_(30);
    input.hidden = testing::normal({windows, length, 3}, Random(2));
  }
  at::Tensor probabilities() { return input.hidden.flatten(0, 1).matmul(parameters.weight("gate").detach().t()).softmax(1); }
  Site site;
  testing::TestParameters parameters;
  std::unique_ptr<Router> router;
  RouterInput input;
};

double unrouted(const Routing& r) {
  EXPECT_EQ(r.metrics.size(), 1U);
  EXPECT_EQ(r.metrics[0].first, "unrouted");
  return r.metrics[0].second.item().toDouble();
}

/// The definition, by sorting the rows of each expert.
void expect_as_defined(Case& s, double capacity_factor) {
  const Routing r = s.router->route(s.input);
  const at::Tensor p = s.probabilities();
  const std::int64_t rows = p.size(0);
  const auto capacity = std::min(rows, static_cast<std::int64_t>(std::ceil(capacity_factor * static_cast<double>(rows) / 4.0)));
  ASSERT_EQ(r.experts.sizes().vec(), (std::vector<std::int64_t>{rows, 4}));
  EXPECT_TRUE(at::allclose(r.weights, p));
  std::vector<bool> routed(static_cast<std::size_t>(rows), false);
  for (std::int64_t n = 0; n < 4; ++n) {
    std::vector<std::pair<float, std::int64_t>> order;
    for (std::int64_t row = 0; row < rows; ++row) order.emplace_back(-p[row][n].item().toFloat(), row);
    std::sort(order.begin(), order.end());
    for (std::size_t i = 0; i < order.size(); ++i) {
      const bool chosen = static_cast<std::int64_t>(i) < capacity;
      EXPECT_EQ(r.experts[order[i].second][n].item().toLong(), chosen ? n : -1) << n << " " << i;
      if (chosen) routed[static_cast<std::size_t>(order[i].second)] = true;
    }
  }
  EXPECT_NEAR(unrouted(r), static_cast<double>(std::count(routed.begin(), routed.end(), false)) / static_cast<double>(rows),
              1e-6);
}

TEST(ExpertChoice, each_expert_takes_its_best_rows) {
  for (const double factor : {0.5, 1.0, 1.3, 2.0, 4.0}) {
    Case s(factor);
    expect_as_defined(s, factor);
  }
}

TEST(ExpertChoice, few_rows_and_none) {
  for (const std::int64_t length : {1, 2, 3}) {
    Case s(1, 1, length);
    expect_as_defined(s, 1);
  }
  Case none(2, 0, 7);
  const Routing r = none.router->route(none.input);
  EXPECT_EQ(r.experts.sizes().vec(), (std::vector<std::int64_t>{0, 4}));
  EXPECT_EQ(unrouted(r), 0);
}

TEST(ExpertChoice, of_equal_rows_the_lower_ones_are_taken) {
  Case s(1, 1, 8);
  s.input.hidden.zero_();
  const Routing r = s.router->route(s.input);
  const at::Tensor all = at::arange(4, at::kLong);
  for (std::int64_t row = 0; row < 8; ++row)
    EXPECT_TRUE(at::equal(r.experts[row], row < 2 ? all : at::full({4}, -1, at::kLong))) << row;
  EXPECT_NEAR(unrouted(r), 0.75, 1e-6);
}

TEST(ExpertChoice, with_all_places_every_expert_takes_every_row) {
  Case s(4);
  const Routing r = s.router->route(s.input);
  EXPECT_TRUE(at::equal(r.experts, at::arange(4, at::kLong).expand({21, 4})));
  EXPECT_EQ(unrouted(r), 0);
}

TEST(ExpertChoice, padding_is_neither_counted_nor_chosen) {
  Case s(1, 2, 6);
  s.input.mask = at::tensor({1, 1, 1, 1, 0, 0}, at::kLong).to(at::kBool).expand({2, 6});
  const Routing padded = s.router->route(s.input);
  RouterInput short_input = s.input;
  short_input.hidden = s.input.hidden.narrow(1, 0, 4);
  short_input.mask = at::Tensor();
  const Routing alone = s.router->route(short_input);
  EXPECT_TRUE(at::equal(padded.experts.view({2, 6, 4}).narrow(1, 0, 4), alone.experts.view({2, 4, 4})));
  EXPECT_TRUE(padded.experts.view({2, 6, 4}).narrow(1, 4, 2).eq(-1).all().item().toBool());
  EXPECT_NEAR(unrouted(padded), unrouted(alone), 1e-6);
}

TEST(ExpertChoice, gradient_reaches_gate_and_input) {
  Case s(2);
  s.input.hidden.requires_grad_();
  s.router->route(s.input).weights.square().sum().backward();
  EXPECT_GT(s.parameters.weight("gate").grad().abs().sum().item().toDouble(), 0);
  EXPECT_GT(s.input.hidden.grad().abs().sum().item().toDouble(), 0);
}

TEST(ExpertChoice, costs_and_refusals) {
  Case s(1.5);
  EXPECT_EQ(s.router->cost(s.site).experts_per_row, 1.5);
  Facts facts;
  facts.site = &s.site;
  EXPECT_EQ(testing::problems_of(*s.router, facts), "");
  EXPECT_EQ(testing::problems_of(*Case(5).router, facts), "capacity_factor: is more than the 4 experts that there are");
}

}  // namespace
}  // namespace moiety
