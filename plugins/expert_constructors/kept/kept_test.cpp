#include <gtest/gtest.h>

#include "moiety/expert_constructor.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

TEST(Kept, declares_as_many_experts_as_the_site_has) {
  Site site;
  site.layers = 1, site.width = 3, site.inner = 12, site.experts = 2;
  const auto shapes = [&](std::vector<std::string> shared, std::vector<std::string> absent) {
    const auto kept = testing::make<ExpertConstructor>(
        "kept", {{"neurons", std::int64_t{4}}, {"shared", std::move(shared)}, {"absent", std::move(absent)}});
    testing::TestParameters declared;
    kept->bind(site, declared);
    std::map<std::string, std::vector<std::int64_t>> found;
    for (const Spec& spec : declared.specs()) found[spec.name] = spec.shape;
    return found;
  };
  using Shapes = std::map<std::string, std::vector<std::int64_t>>;
  EXPECT_EQ(shapes({}, {}), (Shapes{{"in", {2, 4, 3}}, {"in_bias", {2, 4}}, {"out", {2, 3, 4}}, {"out_bias", {2, 3}}}));
  EXPECT_EQ(shapes({"out_bias"}, {"in_bias"}), (Shapes{{"in", {2, 4, 3}}, {"out", {2, 3, 4}}, {"out_bias", {1, 3}}}));
}

TEST(Kept, makes_nothing_of_a_dense_model) {
  const auto kept = testing::make<ExpertConstructor>("kept");
  Facts facts;
  facts.sources = 1;
  Problems problems;
  kept->check(facts, problems);
  ASSERT_EQ(problems.list().size(), 1U);
  EXPECT_EQ(problems.list()[0].message, "makes no experts of a model: it stands for experts that are there already");
  EXPECT_THROW(kept->plan({}, Site{}, nullptr, Random(0)), std::invalid_argument);
}

}  // namespace
}  // namespace moiety
