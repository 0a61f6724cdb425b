#include <ATen/ops/equal.h>
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
