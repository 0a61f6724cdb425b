#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "moiety_testing/testing.h"

namespace moiety {
namespace {

struct Case {
  Case() {
    site.width = 3, site.experts = 4;
    router->bind(site, parameters, testing::TestBank({}));
    input.hidden = testing::normal({2, 5, 3}, Random(2));
  }
  Site site;
  testing::TestParameters parameters;
  std::unique_ptr<Router> router = testing::make<Router>("cosine", {{"dimensions", std::int64_t{6}}});
  RouterInput input;
};

TEST(Cosine, scores_are_scaled_cosines) {
  Case s;
  s.parameters.weight("bias").detach().fill_(0.1);
  const at::Tensor scores = s.router->route(s.input).weights;
  ASSERT_EQ(scores.sizes().vec(), (std::vector<std::int64_t>{10, 4}));
  const at::Tensor q = s.input.hidden.view({10, 3}).matmul(s.parameters.weight("projection").t()) + 0.1;
  for (std::int64_t row = 0; row < 10; ++row) {
    for (std::int64_t n = 0; n < 4; ++n) {
      const at::Tensor e = s.parameters.weight("experts")[n];
      EXPECT_NEAR(scores[row][n].item().toDouble(), 2 * (q[row].dot(e) / q[row].norm() / e.norm()).item().toDouble(), 1e-5);
    }
  }
}

TEST(Cosine, lengths_of_rows_do_not_count_and_the_scale_is_bounded) {
  Case s;
  const at::Tensor before = s.router->route(s.input).weights.detach().clone();
  s.parameters.weight("experts").detach().mul_(1000);
  s.input.hidden = s.input.hidden * 7;
  EXPECT_TRUE(at::allclose(s.router->route(s.input).weights, before, 1e-4, 1e-5));
  s.parameters.weight("scale").detach().fill_(20);
  EXPECT_TRUE(at::allclose(s.router->route(s.input).weights, before * 50, 1e-4, 1e-3));
}

TEST(Cosine, everything_learns_and_a_token_of_zeros_does_no_harm) {
  Case s;
  s.input.hidden[0][0].zero_();
  s.input.hidden.requires_grad_();
  s.router->route(s.input).weights.softmax(1).square().sum().backward();
  for (const Spec& spec : s.parameters.specs()) {
    EXPECT_TRUE(s.parameters.weight(spec.name).grad().isfinite().all().item().toBool()) << spec.name;
    EXPECT_GT(s.parameters.weight(spec.name).grad().abs().sum().item().toDouble(), 0) << spec.name;
  }
  EXPECT_TRUE(s.input.hidden.grad().isfinite().all().item().toBool());
  EXPECT_EQ(s.router->cost(s.site).multiply_adds, 6 * (3 + 4));
}

}  // namespace
}  // namespace moiety
