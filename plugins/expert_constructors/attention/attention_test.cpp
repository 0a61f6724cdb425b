#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "moiety/expert_constructor.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

constexpr std::int64_t own = 0, shared = 1, first = 1, average = 2, d = 4;
const std::vector<std::string> roles{"q", "k", "v", "o", "q_bias", "k_bias", "v_bias", "o_bias"};

TensorMap source(std::uint64_t seed) {
  TensorMap tensors;
  for (const std::string& role : roles)
    tensors[role] = testing::normal(role.size() == 1 ? std::vector<std::int64_t>{d, d} : std::vector<std::int64_t>{d},
                                    Random(seed).fork(role));
  return tensors;
}

struct Case {
  explicit Case(std::int64_t keys_values, std::int64_t weights = own, std::int64_t count = 0, std::uint64_t models = 3) {
    attention =
        testing::make<ExpertConstructor>("attention", {{"keys_values", keys_values}, {"weights", weights}, {"count", count}});
    for (std::uint64_t n = 0; n < models; ++n) sources.push_back(source(n));
    site.place = Place::attention;
    site.layers = 2, site.width = d, site.heads = 2;
    facts.site = &site;
    facts.sources = static_cast<std::int64_t>(models);
    site.experts = attention->count(facts);
  }
  TensorMap expand() {
    attention->plan(sources, site, nullptr, Random(0));
    return attention->expand(sources, site);
  }
  std::unique_ptr<ExpertConstructor> attention;
  Sources sources;
  Site site;
  Facts facts;
};

bool is_shared(const std::string& role) { return role[0] == 'k' || role[0] == 'v'; }

at::Tensor mean_of(const Sources& sources, const std::string& role) {
  at::Tensor sum = sources[0].at(role).clone();
  for (std::size_t n = 1; n < sources.size(); ++n) sum += sources[n].at(role);
  return sum / static_cast<double>(sources.size());
}

TEST(AttentionExperts, are_the_models_in_their_order) {
  Case s(own);
  ASSERT_EQ(s.site.experts, 3);
  const TensorMap bank = s.expand();
  ASSERT_EQ(bank.size(), roles.size());
  for (const auto& [role, tensor] : bank) {
    for (std::int64_t n = 0; n < 3; ++n)
      EXPECT_TRUE(at::equal(tensor[n], s.sources[static_cast<std::size_t>(n)].at(role))) << role << n;
  }
}

TEST(AttentionExperts, shared_keys_and_values_are_the_mean_of_the_models) {
  Case s(shared);
  for (const auto& [role, tensor] : s.expand()) {
    if (is_shared(role)) {
      ASSERT_EQ(tensor.size(0), 1) << role;
      EXPECT_TRUE(at::allclose(tensor[0], mean_of(s.sources, role), 1e-6, 1e-7)) << role;
    } else {
      EXPECT_TRUE(at::equal(tensor[2], s.sources[2].at(role))) << role;
    }
  }
}

TEST(AttentionExperts, the_controls_are_all_the_first_or_all_the_mean) {
  Case firsts(own, first), means(own, average), shared_firsts(shared, first);
  const TensorMap a = firsts.expand(), b = means.expand(), c = shared_firsts.expand();
  for (const std::string& role : roles) {
    for (std::int64_t n = 0; n < 3; ++n) {
      EXPECT_TRUE(at::equal(a.at(role)[n], firsts.sources[0].at(role))) << role;
      EXPECT_TRUE(at::allclose(b.at(role)[n], mean_of(means.sources, role), 1e-6, 1e-7)) << role;
    }
    if (!is_shared(role)) continue;
    EXPECT_TRUE(at::equal(c.at(role)[0], firsts.sources[0].at(role))) << role;
  }
}

TEST(AttentionExperts, one_model_is_copied_and_shared_copies_are_that_model_to_the_bit) {
  Case s(shared, own, 5, 1);
  ASSERT_EQ(s.site.experts, 5);
  for (const auto& [role, tensor] : s.expand())
    for (std::int64_t n = 0; n < tensor.size(0); ++n) EXPECT_TRUE(at::equal(tensor[n], s.sources[0].at(role))) << role;
}

TEST(AttentionExperts, declares_the_shapes_that_expand_gives_and_what_belongs_to_an_expert) {
  for (const std::int64_t keys_values : {own, shared}) {
    Case s(keys_values);
    testing::TestParameters declared;
    s.attention->bind(s.site, declared);
    const TensorMap bank = s.expand();
    ASSERT_EQ(declared.specs().size(), bank.size());
    for (const Spec& spec : declared.specs()) {
      EXPECT_EQ(bank.at(spec.name).sizes().vec(), spec.shape) << spec.name;
      EXPECT_EQ(spec.per_expert, keys_values == own || !is_shared(spec.name)) << spec.name;
      EXPECT_EQ(spec.decays, spec.name.size() == 1) << spec.name;
    }
    EXPECT_FALSE(s.attention->keeps_moments());
  }
}

TEST(AttentionExperts, a_fresh_model_keeps_the_declared_starts) {
  Case s(own, own, 4, 0);
  ASSERT_EQ(s.site.experts, 4);
  EXPECT_TRUE(s.expand().empty());
  testing::TestParameters declared;
  s.attention->bind(s.site, declared);
  for (const Spec& spec : declared.specs()) {
    EXPECT_DOUBLE_EQ(spec.deviation, spec.name == "o" ? 0.01 : spec.name.size() == 1 ? 0.02 : 0) << spec.name;
  }
}

TEST(AttentionExperts, without_biases_they_are_zero) {
  Case s(shared);
  for (TensorMap& tensors : s.sources) tensors.erase("k_bias"), tensors.erase("o_bias");
  const TensorMap bank = s.expand();
  EXPECT_EQ(bank.at("k_bias").abs().sum().item().toDouble(), 0);
  EXPECT_EQ(bank.at("o_bias").sizes().vec(), (std::vector<std::int64_t>{3, d}));
}

TEST(AttentionExperts, what_cannot_be_is_refused) {
  Case s(own, own, 4);
  EXPECT_EQ(testing::problems_of(*s.attention, s.facts), "count: is 4, but 3 models are read, one for each expert: leave it out");
  Case feed_forward(own);
  feed_forward.site.place = Place::feed_forward;
  EXPECT_EQ(testing::problems_of(*feed_forward.attention, feed_forward.facts), ": makes experts of attention alone");
  EXPECT_EQ(testing::problems_of(*Case(own).attention, Case(own).facts), "");
  Case narrow(own);
  narrow.sources[1]["v"] = at::zeros({d, d - 1});
  EXPECT_THROW(narrow.expand(), std::invalid_argument);
}

}  // namespace
}  // namespace moiety
