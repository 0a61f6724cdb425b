#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "moiety/expert_constructor.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

constexpr std::int64_t own = 0, first = 1, average = 2, d = 3, f = 5;

TensorMap source(std::uint64_t seed) {
  const Random random = Random(seed);
  return {{"in", testing::normal({f, d}, random.fork("in"))},
          {"in_bias", testing::normal({f}, random.fork("in_bias"))},
          {"out", testing::normal({d, f}, random.fork("out"))},
          {"out_bias", testing::normal({d}, random.fork("out_bias"))}};
}

struct Case {
  explicit Case(std::int64_t weights, std::int64_t copies = 0) {
    merge = testing::make<ExpertConstructor>("merge", {{"weights", weights}, {"seed_copies", copies}});
    site.layers = 2, site.width = d, site.inner = f;
    facts.site = &site;
    facts.sources = static_cast<std::int64_t>(sources.size());
    site.experts = merge->count(facts);
  }
  TensorMap expand() {
    merge->plan(sources, site, nullptr, Random(0));
    return merge->expand(sources, site);
  }
  Sources sources{source(1), source(2), source(3)};
  Site site;
  Facts facts;
  std::unique_ptr<ExpertConstructor> merge;
};

TEST(Merge, experts_are_the_models_in_their_order) {
  Case s(own);
  ASSERT_EQ(s.site.experts, 3);
  for (const auto& [role, bank] : s.expand()) {
    for (std::int64_t n = 0; n < 3; ++n)
      EXPECT_TRUE(at::equal(bank[n], s.sources[static_cast<std::size_t>(n)].at(role))) << role << n;
  }
}

TEST(Merge, copies_of_the_seed_come_after_the_models) {
  Case s(own, 2);
  ASSERT_EQ(s.site.experts, 5);
  const TensorMap bank = s.expand();
  EXPECT_TRUE(at::equal(bank.at("in")[2], s.sources[2].at("in")));
  for (const std::int64_t n : {3, 4}) EXPECT_TRUE(at::equal(bank.at("in")[n], s.sources[0].at("in"))) << n;
}

TEST(Merge, the_controls_are_all_the_first_or_all_the_mean) {
  Case firsts(first, 1), means(average, 1);
  const TensorMap a = firsts.expand(), b = means.expand();
  const Sources& sources = firsts.sources;
  for (const char* role : {"in", "in_bias", "out", "out_bias"}) {
    const at::Tensor mean = (sources[0].at(role) + sources[1].at(role) + sources[2].at(role)) / 3;
    for (std::int64_t n = 0; n < 4; ++n) {
      EXPECT_TRUE(at::equal(a.at(role)[n], sources[0].at(role))) << role;
      EXPECT_TRUE(at::allclose(b.at(role)[n], mean, 1e-6, 1e-7)) << role;
    }
  }
}

TEST(Merge, the_mean_of_equal_models_is_that_model_to_the_bit) {
  Case s(average);
  s.sources = {source(1), source(1), source(1)};
  EXPECT_TRUE(at::equal(s.expand().at("out")[1], s.sources[0].at("out")));
}

TEST(Merge, declares_the_shapes_that_expand_gives) {
  Case s(own, 1);
  testing::TestParameters declared;
  EXPECT_TRUE(s.merge->bind(s.site, declared).derived.empty());
  const TensorMap bank = s.expand();
  ASSERT_EQ(declared.specs().size(), bank.size());
  for (const Spec& spec : declared.specs()) {
    EXPECT_TRUE(spec.per_expert) << spec.name;
    EXPECT_EQ(bank.at(spec.name).sizes().vec(), spec.shape) << spec.name;
  }
  EXPECT_FALSE(s.merge->keeps_moments()) << "moments of several runs are not those of one";
}

TEST(Merge, a_model_without_biases_gets_zeros) {
  Case s(own);
  s.sources[1].erase("in_bias");
  const TensorMap bank = s.expand();
  EXPECT_EQ(bank.at("in_bias")[1].abs().sum().item().toDouble(), 0);
  EXPECT_TRUE(at::equal(bank.at("in_bias")[2], s.sources[2].at("in_bias")));
}

TEST(Merge, models_that_do_not_fit_are_refused) {
  Case s(own);
  s.sources[1]["in"] = at::zeros({f, d + 1});
  try {
    s.expand();
    FAIL() << "was merged";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "model 2 of those read has no `in` of the shape of the first one's");
  }
  s.sources.clear();
  EXPECT_THROW(s.expand(), std::invalid_argument);
  s.facts.sources = 0;
  EXPECT_EQ(Case(own, 4).merge->count(s.facts), 0);
}

}  // namespace
}  // namespace moiety
