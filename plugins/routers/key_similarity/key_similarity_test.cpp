#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "moiety_testing/testing.h"

namespace moiety {
namespace {

struct Case {
  Case() : bank({{"in", testing::normal({4, 6, 3}, Random(1)).requires_grad_()}}) {
    site.width = 3, site.experts = 4;
    router->bind(site, parameters, bank);
    router->prepare(nullptr, Random(0));
    input.hidden = testing::normal({2, 20, 3}, Random(2)).requires_grad_();
  }
  void expect_distances() {
    const at::Tensor scores = router->route(input).weights;
    EXPECT_FALSE(scores.requires_grad());
    const at::Tensor x = input.hidden.detach().view({40, 3});
    for (std::int64_t row = 0; row < 40; ++row) {
      for (std::int64_t n = 0; n < 4; ++n) {
        at::Tensor mean = at::zeros({3});
        for (std::int64_t j = 0; j < 6; ++j) mean += bank.keys()[n][j].detach() / bank.keys()[n][j].detach().norm() / 6;
        EXPECT_NEAR(scores[row][n].item().toDouble(), -(x[row] / x[row].norm() - mean).norm().item().toDouble(), 1e-5);
      }
    }
  }
  Site site;
  testing::TestParameters parameters;
  testing::TestBank bank;
  std::unique_ptr<Router> router = testing::make<Router>("key-similarity");
  RouterInput input;
};

TEST(KeySimilarity, scores_are_distances_to_the_mean_of_the_directions_of_the_keys) { Case().expect_distances(); }

TEST(KeySimilarity, follows_the_keys_after_a_step_and_only_then) {
  Case s;
  const at::Tensor before = s.router->route(s.input).weights;
  s.bank.keys().detach().add_(testing::normal({4, 6, 3}, Random(5)));
  EXPECT_TRUE(at::equal(s.router->route(s.input).weights, before));
  s.router->after_step({1, {}, {}});
  s.expect_distances();
  EXPECT_FALSE(s.parameters.specs().at(0).trains);
}

TEST(KeySimilarity, zeros_do_no_harm) {
  Case s;
  s.input.hidden = at::zeros({1, 1, 3});
  s.bank.keys().detach()[0].zero_();
  s.router->after_step({1, {}, {}});
  EXPECT_TRUE(s.router->route(s.input).weights.isfinite().all().item().toBool());
}

}  // namespace
}  // namespace moiety
