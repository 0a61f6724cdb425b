#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "moiety/clusterer.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

/// Two clusters: which of the points is the farther from the first one.
class Halves final : public Clusterer {
 public:
  Abilities abilities() const override { return able; }
  Clusters fit(const at::Tensor& given, std::int64_t count, Random) override {
    EXPECT_EQ(count, 0);
    points = given.clone();
    Clusters c;
    c.centres = given.narrow(0, 0, 2).clone();
    c.radii = at::tensor({1.0, radius}, at::kFloat);
    return c;
  }
  Abilities able{false, false, true};
  double radius = 1;
  at::Tensor points;
};

class Windows final : public Activations {
 public:
  Windows(at::Tensor inputs, std::int64_t projected) : inputs_(std::move(inputs)), projected_(projected) {}
  std::int64_t windows() const override { return inputs_.size(0); }
  at::Tensor read(std::int64_t begin, std::int64_t end) const override { return inputs_.narrow(0, begin, end - begin); }
  std::int64_t dimensions() const override { return projected_; }

 private:
  at::Tensor inputs_;
  std::int64_t projected_;
};

constexpr std::int64_t d = 4, length = 6, window_view = 0, prefix_view = 1, by_sequence = 0, by_token = 1;

struct Case {
  explicit Case(std::map<std::string, Value> given = {}, std::int64_t projected = 0, double radius = 1) {
    halves->radius = radius;
    given.emplace("clusterer", std::shared_ptr<Component>(halves));
    router = testing::make<Router>("nearest-centre", std::move(given));
    site.width = d;
    inputs = testing::normal({100, length, d}, Random(1));
    experts = router->find_experts(site, Windows(inputs, projected), Random(2));
    site.experts = experts;
    router->bind(site, parameters, testing::TestBank({}));
  }
  std::shared_ptr<Halves> halves = std::make_shared<Halves>();
  std::unique_ptr<Router> router;
  Site site;
  at::Tensor inputs;
  std::int64_t experts = 0;
  testing::TestParameters parameters;
};

Routing route(const Router& router, const at::Tensor& hidden, const at::Tensor& mask = {}) {
  RouterInput input;
  input.hidden = hidden;
  input.mask = mask;
  input.training = true;
  return router.route(input);
}

TEST(NearestCentre, clusters_of_the_mean_inputs_are_the_experts) {
  Case s;
  EXPECT_EQ(s.experts, 2);
  EXPECT_LT((s.halves->points - s.inputs.mean(1)).abs().max().item().toDouble(), 1e-6) << "all windows, not projected";
  const Routing r = route(*s.router, s.inputs);
  ASSERT_EQ(r.experts.sizes().vec(), (std::vector<std::int64_t>{100, 1}));
  EXPECT_FALSE(r.weights.defined()) << "weight exactly 1";
  const at::Tensor means = s.inputs.mean(1);
  for (std::int64_t i = 0; i < 100; ++i) {
    const double to_first = (means[i] - means[0]).norm().item().toDouble(),
                 to_second = (means[i] - means[1]).norm().item().toDouble();
    EXPECT_EQ(r.experts[i][0].item().toLong(), to_second < to_first ? 1 : 0) << i;
  }
}

TEST(NearestCentre, distances_are_divided_by_the_radius_unless_told_otherwise) {
  Case wide({}, 0, 1000.0);
  EXPECT_EQ(route(*wide.router, wide.inputs).experts.narrow(0, 1, 99).min().item().toLong(), 1)
      << "all but the first centre itself";
  Case plain({{"radii", false}}, 0, 1000.0), unit;
  EXPECT_TRUE(at::equal(route(*plain.router, plain.inputs).experts, route(*unit.router, unit.inputs).experts));
}

TEST(NearestCentre, a_projection_keeps_lengths_on_average) {
  Case s({}, 64);
  EXPECT_EQ(s.halves->points.size(1), 64);
  const double ratio = (s.halves->points.square().sum() / s.inputs.mean(1).square().sum()).item().toDouble();
  EXPECT_NEAR(ratio, 1, 0.3);
}

TEST(NearestCentre, padding_is_not_looked_at) {
  Case s;
  const at::Tensor hidden = testing::normal({2, length, d}, Random(5));
  at::Tensor mask = at::zeros({2, length}, at::kBool);
  mask[0].fill_(true);
  mask[1].narrow(0, 0, 3).fill_(true);
  const Routing padded = route(*s.router, hidden, mask);
  const Routing alone = route(*s.router, hidden.narrow(0, 1, 1).narrow(1, 0, 3));
  EXPECT_LT((padded.observed[1] - alone.observed[0]).abs().max().item().toDouble(), 1e-6);
  EXPECT_EQ(padded.experts[1][0].item().toLong(), alone.experts[0][0].item().toLong());
}

// A causal route: what comes after the prefix must not choose the expert of what stands in it.
TEST(NearestCentre, A9_A20_a_prefix_never_sees_a_later_token) {
  Case s({{"view", prefix_view}, {"prefix", std::int64_t{2}}});
  at::Tensor changed = s.inputs.clone();
  changed.narrow(1, 2, length - 2).add_(100);
  EXPECT_TRUE(at::equal(route(*s.router, s.inputs).experts, route(*s.router, changed).experts));
  Case whole({{"view", window_view}});
  EXPECT_FALSE(at::equal(route(*whole.router, s.inputs).observed, route(*whole.router, changed).observed));
}

TEST(NearestCentre, a_token_by_itself_is_the_control) {
  Case s({{"level", by_token}});
  EXPECT_EQ(s.router->rows(), Rows::token);
  EXPECT_EQ(route(*s.router, s.inputs).experts.size(0), 100 * length);
  EXPECT_EQ(Case({{"level", by_sequence}}).router->rows(), Rows::sequence);
}

// The rule is sequential: three sequences that join one centre move it one after another.
TEST(NearestCentre, centres_follow_one_by_one_and_only_after_a_step) {
  Case s({{"momentum", 0.9}});
  const at::Tensor hidden = s.inputs.narrow(0, 0, 20);
  const Routing before = route(*s.router, hidden);
  EXPECT_TRUE(at::equal(before.experts, route(*s.router, hidden).experts)) << "route() changes nothing";
  testing::TestArchive archive;
  s.router->state(archive);
  at::Tensor centres, ignored;
  archive.rewind();
  archive("centres", centres);
  centres = centres.clone();
  for (std::int64_t i = 0; i < 20; ++i) {
    const auto e = before.experts[i][0].item().toLong();
    centres[e] = centres[e] * 0.9 + before.observed[i].to(at::kDouble) * (1 - 0.9);
  }
  s.router->after_step({1, before.experts, before.observed});
  testing::TestArchive after;
  s.router->state(after);
  after.rewind();
  at::Tensor moved;
  after("centres", moved);
  EXPECT_LT((moved - centres).abs().max().item().toDouble(), 1e-12);
  s.router->after_step({2, {}, {}});  // nothing was observed

  Case resting({{"momentum", 1.0}});
  EXPECT_FALSE(route(*resting.router, hidden).observed.defined());
}

TEST(NearestCentre, T42_state_brings_back_every_decision) {
  Case s;
  const Routing before = route(*s.router, s.inputs);
  s.router->after_step({1, before.experts, before.observed});
  testing::TestArchive archive;
  s.router->state(archive);
  archive.rewind();
  const auto loaded =
      testing::make<Router>("nearest-centre", {{"clusterer", std::shared_ptr<Component>(std::make_shared<Halves>())}});
  loaded->state(archive);
  testing::TestParameters parameters;
  loaded->bind(s.site, parameters, testing::TestBank({}));
  const Routing a = route(*s.router, s.inputs), b = route(*loaded, s.inputs);
  EXPECT_TRUE(at::equal(a.experts, b.experts));
  EXPECT_TRUE(at::equal(a.observed, b.observed));
}

TEST(NearestCentre, a_clusterer_that_must_be_told_the_number_is_refused) {
  const auto told = std::make_shared<Halves>();
  told->able = {true, true, false};
  Problems problems;
  testing::make<Router>("nearest-centre", {{"clusterer", std::shared_ptr<Component>(told)}})->check(Facts(), problems);
  ASSERT_EQ(problems.list().size(), 1U);
  EXPECT_EQ(problems.list()[0].parameter, "clusterer");
}

}  // namespace
}  // namespace moiety
