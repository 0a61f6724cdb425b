#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "moiety_testing/testing.h"

namespace moiety {
namespace {

constexpr std::int64_t by_domain = 1, by_cluster = 2;

struct Case {
  explicit Case(std::map<std::string, Value> given = {}) {
    router = testing::make<Router>("label", std::move(given));
    site.width = 2, site.experts = 3;
    testing::TestParameters parameters;
    router->bind(site, parameters, testing::TestBank({}));
    EXPECT_TRUE(parameters.specs().empty());
    input.hidden = testing::normal({4, 6, 2}, Random(1));
    input.domain = at::tensor({2, 0, 1, 2}, at::kLong);
    input.cluster = at::tensor({1, 1, 0, 2}, at::kLong);
    facts.site = &site;
  }
  std::string error() const {
    try {
      router->route(input);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  }
  std::unique_ptr<Router> router;
  Site site;
  RouterInput input;
  Facts facts;
};

const Value topics = StageInput{"feed_forward.router.clusters"};

TEST(Label, the_domain_is_the_expert_with_weight_exactly_one) {
  Case s;
  EXPECT_EQ(s.router->rows(), Rows::sequence);
  EXPECT_TRUE(s.router->needs().domain_labels);
  EXPECT_FALSE(s.router->needs().cluster_labels);
  const Routing r = s.router->route(s.input);
  EXPECT_TRUE(at::equal(r.experts, at::tensor({2, 0, 1, 2}, at::kLong).view({4, 1})));
  EXPECT_FALSE(r.weights.defined());
  EXPECT_EQ(s.router->cost(s.site).experts_per_row, 1);
  EXPECT_EQ(s.router->cost(s.site).multiply_adds, 0);
}

TEST(Label, a_clustering_makes_the_cluster_the_expert) {
  for (const std::map<std::string, Value>& given :
       {std::map<std::string, Value>{{"clusters", topics}}, {{"clusters", topics}, {"by", by_cluster}}}) {
    Case s(given);
    EXPECT_TRUE(s.router->needs().cluster_labels);
    EXPECT_FALSE(s.router->needs().domain_labels);
    EXPECT_TRUE(at::equal(s.router->route(s.input).experts, at::tensor({1, 1, 0, 2}, at::kLong).view({4, 1})));
    EXPECT_EQ(testing::problems_of(*s.router, s.facts), "");
  }
}

TEST(Label, a_label_without_an_expert_is_an_error_that_names_both) {
  Case s;
  s.input.domain = at::tensor({0, 3, 1, 2}, at::kLong);
  EXPECT_EQ(s.error(), "sequence 1 has the domain 3, but there are the experts 0 to 2");
  s.input.domain = at::tensor({0, 1, 2, -1}, at::kLong);
  EXPECT_EQ(s.error(), "sequence 3 has the domain -1, but there are the experts 0 to 2");
  s.input.domain = at::tensor({0, 1}, at::kLong);
  EXPECT_EQ(s.error(), "there is not one domain for each sequence");
  s.input.domain = at::Tensor();
  EXPECT_EQ(s.error(), "the domain of the sequences is not known here");
}

TEST(Label, what_cannot_be_is_refused_before_the_run) {
  EXPECT_EQ(testing::problems_of(*Case({{"by", by_cluster}}).router, Facts()),
            "clusters: which clustering? by = \"cluster\" needs one");
  EXPECT_EQ(testing::problems_of(*Case({{"by", by_domain}, {"clusters", topics}}).router, Facts()),
            "clusters: is not read, since the label is the domain");
  Case few({{"clusters", topics}});
  few.facts.clusters = 4;
  EXPECT_EQ(testing::problems_of(*few.router, few.facts), ": there are 4 clusters, but only 3 experts");
  Case domains;
  domains.facts.domains = {"a", "b", "c", "d"};
  EXPECT_EQ(testing::problems_of(*domains.router, domains.facts), ": there are 4 domains, but only 3 experts");
  domains.facts.domains = {"a", "b", "c"};
  EXPECT_EQ(testing::problems_of(*domains.router, domains.facts), "");
}

}  // namespace
}  // namespace moiety
