#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "moiety/expert_constructor.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

Site site_of(std::int64_t experts) {
  Site site;
  site.layers = 1;
  site.width = 3;
  site.inner = 5;
  site.experts = experts;
  return site;
}

std::unique_ptr<ExpertConstructor> copy_of(std::int64_t count) {
  return testing::make<ExpertConstructor>("copy", {{"count", count}});
}

TEST(Copy, every_expert_is_the_dense_layer) {
  const Sources sources{{{"in", testing::normal({5, 3}, Random(1))},
                         {"in_bias", testing::normal({5}, Random(2))},
                         {"out", testing::normal({3, 5}, Random(3))},
                         {"out_bias", testing::normal({3}, Random(4))}}};
  const auto copy = copy_of(4);
  const Site site = site_of(4);
  copy->plan(sources, site, nullptr, Random(0));
  testing::TestParameters declared;
  copy->bind(site, declared);
  const TensorMap experts = copy->expand(sources, site);
  ASSERT_EQ(declared.specs().size(), 4U);
  for (const Spec& spec : declared.specs()) {
    EXPECT_TRUE(spec.per_expert) << spec.name;
    ASSERT_EQ(experts.at(spec.name).sizes().vec(), spec.shape) << spec.name;
    for (std::int64_t n = 0; n < 4; ++n) EXPECT_TRUE(at::equal(experts.at(spec.name)[n], sources[0].at(spec.name))) << spec.name;
  }
}

TEST(Copy, a_model_without_biases_gets_zeros) {
  const Sources sources{{{"in", testing::normal({5, 3}, Random(1))}, {"out", testing::normal({3, 5}, Random(3))}}};
  const TensorMap experts = copy_of(2)->expand(sources, site_of(2));
  EXPECT_EQ(experts.at("in_bias").abs().sum().item().toDouble(), 0);
  EXPECT_EQ(experts.at("out_bias").sizes().vec(), (std::vector<std::int64_t>{2, 3}));
}

TEST(Copy, every_attention_expert_is_the_dense_attention) {
  Site site = site_of(3);
  site.place = Place::attention;
  site.heads = 1;
  TensorMap dense;
  for (const char* role : {"q", "k", "v", "o"}) {
    dense[role] = testing::normal({3, 3}, Random(1).fork(role));
    dense[role + std::string("_bias")] = testing::normal({3}, Random(2).fork(role));
  }
  dense.erase("v_bias");
  const auto copy = copy_of(3);
  testing::TestParameters declared;
  copy->bind(site, declared);
  ASSERT_EQ(declared.specs().size(), 8U);
  const TensorMap experts = copy->expand({dense}, site);
  for (const Spec& spec : declared.specs()) {
    EXPECT_TRUE(spec.per_expert) << spec.name;
    EXPECT_EQ(spec.decays, spec.name.size() == 1) << spec.name;
    ASSERT_EQ(experts.at(spec.name).sizes().vec(), spec.shape) << spec.name;
    if (spec.name == "v_bias") continue;
    for (std::int64_t n = 0; n < 3; ++n) EXPECT_TRUE(at::equal(experts.at(spec.name)[n], dense.at(spec.name))) << spec.name;
  }
  EXPECT_EQ(experts.at("v_bias").abs().sum().item().toDouble(), 0);
}

// A copy of a tensor has the moments of that tensor, so an optimizer may go on.
TEST(Copy, moments_go_the_way_of_their_numbers) { EXPECT_TRUE(copy_of(2)->keeps_moments()); }

TEST(Copy, a_fresh_model_keeps_the_declared_starts) {
  const auto copy = copy_of(2);
  EXPECT_TRUE(copy->expand({}, site_of(2)).empty());
  testing::TestParameters declared;
  copy->bind(site_of(2), declared);
  for (const Spec& spec : declared.specs()) {
    const bool bias = spec.shape.size() == 2;
    EXPECT_NEAR(spec.deviation, bias ? 0 : spec.name == "out" ? 0.02 / std::sqrt(2.0) : 0.02, 1e-12) << spec.name;
  }
}

TEST(Copy, one_model_is_read_and_without_a_count_the_router_says_how_many) {
  EXPECT_EQ(copy_of(0)->count(Facts()), 0);
  EXPECT_EQ(copy_of(3)->count(Facts()), 3);
  Facts facts;
  facts.sources = 2;
  Problems problems;
  copy_of(3)->check(facts, problems);
  EXPECT_EQ(problems.list().size(), 1U);
}

}  // namespace
}  // namespace moiety
