#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "moiety_testing/reports.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

using Given = std::map<std::string, Value>;

struct Case {
  explicit Case(Given given = {}, std::int64_t windows = 40)
      : bank({{"in", testing::normal({4, 6, 5}, Random(1))}, {"in_bias", testing::normal({4, 6}, Random(2), 0.2)}}),
        inputs(testing::normal({windows, 8, 5}, Random(3))) {
    site.width = 5, site.experts = 4, site.inner = 24;
    router = testing::make<Router>("activation-mlp", std::move(given));
    router->bind(site, parameters, bank);
  }
  Case& prepare(std::uint64_t seed = 0) {
    const testing::TestActivations recorded(inputs);
    router->prepare(&recorded, Random(seed));
    return *this;
  }
  double captured() const {
    testing::TestReport report("activation-mlp");
    router->report(report);
    return report.value("captured");
  }
  at::Tensor scores(const at::Tensor& hidden) const {
    RouterInput input;
    input.hidden = hidden;
    return router->route(input).weights;
  }
  Site site;
  testing::TestParameters parameters;
  testing::TestBank bank;
  at::Tensor inputs;
  std::unique_ptr<Router> router;
};

at::Tensor directions(const at::Tensor& rows) { return rows / rows.norm(2, {-1}, true); }

at::Tensor mass_of(Case& s, const at::Tensor& x) {
  at::Tensor all = at::empty({x.size(0), 4});
  for (std::int64_t n = 0; n < 4; ++n)
    all.select(1, n).copy_((x.matmul(s.bank.weight("in")[n].t()) + s.bank.weight("in_bias")[n]).relu().sum(1));
  return all;
}

// The whole training again, with derivatives by the library; one batch an epoch, so that its order does not matter.
TEST(ActivationMlp, trains_as_a_plain_reference_does) {
  Case s({{"epochs", std::int64_t{7}}, {"batch", std::int64_t{1000}}, {"held_out", 0.0}});
  s.prepare();
  const at::Tensor x = s.inputs.view({320, 5}), mass = mass_of(s, x), target = mass / mass.max(), inputs = directions(x);
  std::vector<at::Tensor> weights{directions(s.bank.weight("in")).mean(1), at::eye(4)}, mean, square;
  for (const at::Tensor& w : weights) mean.push_back(at::zeros_like(w)), square.push_back(at::zeros_like(w));
  for (int step = 1; step <= 7; ++step) {
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& w : weights) leaves.push_back(w.detach().clone().requires_grad_());
    const at::Tensor logits = inputs.matmul(leaves[0].t()).tanh().matmul(leaves[1].t());
    at::binary_cross_entropy_with_logits(logits, target).backward();
    for (std::size_t i = 0; i < 2; ++i) {
      const at::Tensor g = leaves[i].grad();
      mean[i] = 0.9 * mean[i] + 0.1 * g;
      square[i] = 0.999 * square[i] + 0.001 * g * g;
      weights[i] = leaves[i].detach() -
                   0.01 * (mean[i] / (1 - std::pow(0.9, step))) / ((square[i] / (1 - std::pow(0.999, step))).sqrt() + 1e-8);
    }
  }
  EXPECT_TRUE(at::allclose(s.parameters.weight("first"), weights[0], 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(s.parameters.weight("second"), weights[1], 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(s.scores(s.inputs), inputs.matmul(weights[0].t()).tanh().matmul(weights[1].t()), 1e-3, 1e-4));
}

TEST(ActivationMlp, learns_which_experts_are_active) {
  Case few({{"epochs", std::int64_t{1}}, {"batch", std::int64_t{100000}}}), much({{"batch", std::int64_t{64}}});
  few.prepare();
  much.prepare();
  EXPECT_GT(much.captured(), few.captured());
  EXPECT_GT(much.captured(), 0.93);
  EXPECT_LE(much.captured(), 1);
  // What was held out says the same as new tokens do, about.
  const at::Tensor x = testing::normal({400, 1, 5}, Random(77)), mass = mass_of(much, x.view({400, 5}));
  const double by_score = mass.gather(1, much.scores(x).argmax(1, true)).sum().item().toDouble(),
               best = std::get<0>(mass.max(1)).sum().item().toDouble();
  EXPECT_NEAR(by_score / best, much.captured(), 0.06);
}

TEST(ActivationMlp, deterministic_for_a_stream) {
  Case a, b, other;
  a.prepare(1), b.prepare(1), other.prepare(2);
  for (const char* name : {"first", "second"}) {
    EXPECT_TRUE(at::equal(a.parameters.weight(name), b.parameters.weight(name))) << name;
    EXPECT_FALSE(at::equal(a.parameters.weight(name), other.parameters.weight(name))) << name;
  }
}

TEST(ActivationMlp, reads_no_more_tokens_than_it_was_told) {
  Case all({{"tokens", std::int64_t{100}}, {"held_out", 0.0}}), first({{"held_out", 0.0}});
  first.inputs = first.inputs.view({320, 1, 5}).narrow(0, 0, 100);
  all.prepare(), first.prepare();
  EXPECT_TRUE(at::equal(all.parameters.weight("first"), first.parameters.weight("first")));
}

TEST(ActivationMlp, T42_state_and_tensors_bring_back_every_score) {
  Case s, loaded;
  s.prepare();
  testing::TestArchive archive;
  s.router->state(archive);
  archive.rewind();
  loaded.router->state(archive);
  for (const char* name : {"first", "second"}) loaded.parameters.weight(name).copy_(s.parameters.weight(name));
  EXPECT_TRUE(at::equal(s.scores(s.inputs), loaded.scores(s.inputs)));
  EXPECT_EQ(s.captured(), loaded.captured());
}

TEST(ActivationMlp, nothing_of_it_trains_later_and_needs_are_told) {
  Case s;
  for (const Spec& spec : s.parameters.specs()) EXPECT_FALSE(spec.trains) << spec.name;
  EXPECT_TRUE(s.router->needs().activations);
  EXPECT_THROW(s.router->prepare(nullptr, Random(0)), std::invalid_argument);
  testing::TestReport nothing("activation-mlp");
  s.router->report(nothing);
  EXPECT_TRUE(nothing.empty()) << "nothing was learned yet";
  s.prepare();
  EXPECT_FALSE(s.scores(s.inputs.clone().requires_grad_()).requires_grad());
  EXPECT_EQ(s.router->cost(s.site).multiply_adds, 4 * (5 + 4));
  Facts facts;
  facts.site = &s.site;
  s.site.place = Place::attention;
  EXPECT_EQ(testing::problems_of(*s.router, facts), ": scores neurons of feed-forwards alone");
}

TEST(ActivationMlp, neurons_that_never_fire_do_no_harm) {
  Case s;
  s.bank.tensor("in_bias").fill_(-1000);
  s.prepare();
  EXPECT_EQ(s.captured(), 1);
  EXPECT_TRUE(s.scores(s.inputs).isfinite().all().item().toBool());
}

}  // namespace
}  // namespace moiety
