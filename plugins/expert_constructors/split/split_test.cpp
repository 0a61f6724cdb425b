#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "moiety/expert_constructor.h"
#include "moiety_testing/testing.h"

namespace moiety {
namespace {

using testing::make;

/// Labels 0, 1, …, k−1, 0, 1, …; or what it is told to give. Remembers what it was asked.
class Fixed final : public Clusterer {
 public:
  Abilities abilities() const override { return able; }
  Clusters fit(const at::Tensor& given, std::int64_t count, Random) override {
    points = given;
    std::vector<std::int64_t> list = labels;
    for (std::int64_t i = 0; labels.empty() && i < given.size(0); ++i) list.push_back(i % count);
    Clusters clusters;
    clusters.labels = at::tensor(list, at::kLong);
    return clusters;
  }
  Abilities able{true, true, false};
  at::Tensor points;
  std::vector<std::int64_t> labels;
};

struct Case {
  explicit Case(std::int64_t count, std::int64_t feature = 0) {
    site.width = 5, site.inner = 12;
    split = make<ExpertConstructor>(
        "split", {{"count", count}, {"clusterer", std::shared_ptr<Component>(clusterer)}, {"feature", feature}});
    site.experts = count;
    sources = {{{"in", testing::normal({12, 5}, Random(1))},
                {"in_bias", testing::normal({12}, Random(2))},
                {"out", testing::normal({5, 12}, Random(3))},
                {"out_bias", testing::normal({5}, Random(4))}}};
  }
  std::shared_ptr<Fixed> clusterer = std::make_shared<Fixed>();
  Site site;
  std::unique_ptr<ExpertConstructor> split;
  Sources sources;
};

at::Tensor dense(const TensorMap& w, const at::Tensor& x) {
  return (x.matmul(w.at("in").t()) + w.at("in_bias")).tanh().matmul(w.at("out").t()) + w.at("out_bias");
}

/// Σ over the experts, each with weight 1, and the shared bias once.
at::Tensor all_experts(const TensorMap& bank, const at::Tensor& x) {
  at::Tensor y = bank.at("out_bias")[0].expand({x.size(0), x.size(1)}).clone();
  for (std::int64_t i = 0; i < bank.at("in").size(0); ++i) {
    y += (x.matmul(bank.at("in")[i].t()) + bank.at("in_bias")[i]).tanh().matmul(bank.at("out")[i].t());
  }
  return y;
}

TEST(Split, all_experts_with_weight_one_are_the_dense_layer) {
  for (const std::int64_t count : {1, 2, 3, 4, 6, 12}) {
    Case s(count);
    s.split->plan(s.sources, s.site, nullptr, Random(0));
    const at::Tensor x = testing::normal({40, 5}, Random(5));
    EXPECT_TRUE(at::allclose(all_experts(s.split->expand(s.sources, s.site), x), dense(s.sources[0], x), 1e-5, 1e-5)) << count;
  }
}

TEST(Split, an_expert_owns_its_neurons_in_ascending_order) {
  Case s(3);
  s.split->plan(s.sources, s.site, nullptr, Random(0));
  const TensorMap bank = s.split->expand(s.sources, s.site);
  const at::Tensor second = at::tensor({1, 4, 7, 10}, at::kLong);
  EXPECT_TRUE(at::equal(bank.at("in")[1], s.sources[0].at("in").index_select(0, second)));
  EXPECT_TRUE(at::equal(bank.at("in_bias")[1], s.sources[0].at("in_bias").index_select(0, second)));
  EXPECT_TRUE(at::equal(bank.at("out")[1], s.sources[0].at("out").index_select(1, second)));
}

TEST(Split, declares_the_shapes_that_expand_gives) {
  Case s(4);
  s.split->plan(s.sources, s.site, nullptr, Random(0));
  testing::TestParameters parameters;
  s.split->bind(s.site, parameters);
  const TensorMap bank = s.split->expand(s.sources, s.site);
  ASSERT_EQ(parameters.specs().size(), bank.size());
  for (const Spec& spec : parameters.specs()) EXPECT_EQ(bank.at(spec.name).sizes().vec(), spec.shape) << spec.name;
}

TEST(Split, clusters_directions_of_keys_or_keys_as_they_are) {
  Case directions(3), raw(3, 1);
  directions.split->plan(directions.sources, directions.site, nullptr, Random(0));
  EXPECT_TRUE(at::allclose(directions.clusterer->points.norm(2, {1}, false), at::tensor({1.0F}).expand(12)));
  raw.split->plan(raw.sources, raw.site, nullptr, Random(0));
  EXPECT_TRUE(at::equal(raw.clusterer->points, raw.sources[0].at("in")));
}

TEST(Split, T42_state_keeps_the_labels) {
  Case s(3), other(3);
  s.split->plan(s.sources, s.site, nullptr, Random(0));
  testing::TestArchive archive;
  s.split->state(archive);
  archive.rewind();
  other.split->state(archive);
  const TensorMap a = s.split->expand(s.sources, s.site), b = other.split->expand(s.sources, s.site);
  for (const auto& [role, tensor] : a) EXPECT_TRUE(at::equal(tensor, b.at(role))) << role;
}

TEST(Split, sources_without_biases_get_zeros) {
  Case s(3);
  s.sources[0].erase("in_bias");
  s.sources[0].erase("out_bias");
  s.split->plan(s.sources, s.site, nullptr, Random(0));
  EXPECT_EQ(s.split->expand(s.sources, s.site).at("in_bias").abs().sum().item().toDouble(), 0);
}

std::string refusal(const Case& s, std::int64_t sources = 1) {
  Facts facts;
  facts.site = &s.site;
  facts.sources = sources;
  Problems problems;
  s.split->check(facts, problems);
  return problems.list().empty() ? "" : problems.list()[0].parameter + ": " + problems.list()[0].message;
}

TEST(Split, what_cannot_be_is_refused_before_the_run) {
  EXPECT_EQ(refusal(Case(4)), "");
  EXPECT_EQ(refusal(Case(5)), "count: 12 neurons cannot be split into 5 experts of equal size; 4 or 6 would do");
  EXPECT_EQ(refusal(Case(13)), "count: 12 neurons cannot be split into 13 experts of equal size; 12 would do");
  EXPECT_EQ(refusal(Case(4), 2), ": splits one model, but 2 are read");
  Case s(4);
  s.clusterer->able.equal_sizes = false;
  EXPECT_EQ(refusal(s), "clusterer: cannot be told to make a given number of clusters of equal size, which split needs");
}

TEST(Split, a_clusterer_that_breaks_its_promise_is_found_out) {
  for (const std::vector<std::int64_t>& labels :
       {std::vector<std::int64_t>{0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1},
        std::vector<std::int64_t>{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2}, std::vector<std::int64_t>{0, 1}}) {
    Case s(2);
    s.clusterer->labels = labels;
    EXPECT_THROW(s.split->plan(s.sources, s.site, nullptr, Random(0)), std::runtime_error);
  }
}

}  // namespace
}  // namespace moiety
