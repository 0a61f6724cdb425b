#include <ATen/ATen.h>
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
  explicit Case(std::int64_t count, std::int64_t feature = 0) : Case({{"count", count}, {"feature", feature}}) {}
  explicit Case(std::map<std::string, Value> given) {
    site.width = 5, site.inner = 12;
    given["clusterer"] = std::shared_ptr<Component>(clusterer);
    split = make<ExpertConstructor>("split", std::move(given));
    Facts facts;
    facts.site = &site;
    site.experts = split->count(facts);
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

TEST(Split, the_way_back_is_the_dense_layer_bit_for_bit) {
  Case s(3);
  s.split->plan(s.sources, s.site, nullptr, Random(0));
  const TensorMap bank = s.split->expand(s.sources, s.site), dense_again = s.split->collapse(bank, s.site);
  ASSERT_EQ(dense_again.size(), 4U);
  for (const auto& [role, tensor] : s.sources[0]) EXPECT_TRUE(at::equal(dense_again.at(role), tensor)) << role;
}

// The rows of both matrices of a gated feed-forward and the columns of the third belong to one neuron.
TEST(Split, a_gated_neuron_moves_as_a_whole) {
  Case s(3);
  s.site.activation = Activation::swiglu;
  s.site.biases = false;
  s.sources = {{{"in", testing::normal({12, 5}, Random(1))},
                {"up", testing::normal({12, 5}, Random(2))},
                {"out", testing::normal({5, 12}, Random(3))}}};
  s.split->plan(s.sources, s.site, nullptr, Random(0));
  testing::TestParameters declared;
  s.split->bind(s.site, declared);
  ASSERT_EQ(declared.specs().size(), 3U);
  const TensorMap bank = s.split->expand(s.sources, s.site), back = s.split->collapse(bank, s.site);
  for (const Spec& spec : declared.specs()) EXPECT_EQ(bank.at(spec.name).sizes().vec(), spec.shape) << spec.name;
  const at::Tensor second = at::tensor({1, 4, 7, 10}, at::kLong);
  EXPECT_TRUE(at::equal(bank.at("up")[1], s.sources[0].at("up").index_select(0, second)));
  EXPECT_TRUE(at::equal(bank.at("out")[1], s.sources[0].at("out").index_select(1, second)));
  for (const auto& [role, tensor] : s.sources[0]) EXPECT_TRUE(at::equal(back.at(role), tensor)) << role;
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

TEST(Split, a_size_says_the_same_as_a_count) {
  Case by_size(std::map<std::string, Value>{{"size", std::int64_t{4}}}), by_count(3);
  ASSERT_EQ(by_size.site.experts, 3);
  for (Case* s : {&by_size, &by_count}) s->split->plan(s->sources, s->site, nullptr, Random(0));
  const TensorMap a = by_size.split->expand(by_size.sources, by_size.site),
                  b = by_count.split->expand(by_count.sources, by_count.site);
  for (const auto& [role, tensor] : a) EXPECT_TRUE(at::equal(tensor, b.at(role))) << role;
}

const std::map<std::string, Value> by_co_activations{{"count", std::int64_t{3}}, {"points", std::int64_t{1}}};

/// What the clusterer is given: points [12, …].
at::Tensor points_of(const at::Tensor& inputs, std::int64_t dimensions, std::uint64_t seed = 0) {
  Case s(by_co_activations);
  const testing::TestActivations recorded(inputs, dimensions);
  s.split->plan(s.sources, s.site, &recorded, Random(seed));
  return s.clusterer->points;
}

TEST(Split, co_activations_are_directions_of_what_neurons_did) {
  Case s(by_co_activations);
  EXPECT_TRUE(s.split->needs().activations);
  EXPECT_FALSE(Case(3).split->needs().activations);
  EXPECT_THROW(s.split->plan(s.sources, s.site, nullptr, Random(0)), std::invalid_argument);
  const at::Tensor inputs = testing::normal({6, 7, 5}, Random(8));
  const at::Tensor did = (inputs.view({42, 5}).matmul(s.sources[0].at("in").t()) + s.sources[0].at("in_bias")).relu().t();
  EXPECT_TRUE(at::allclose(points_of(inputs, 0), did / did.norm(2, {1}, true), 1e-5, 1e-6));
}

TEST(Split, projected_co_activations_keep_their_angles) {
  const at::Tensor inputs = testing::normal({6, 7, 5}, Random(8)), whole = points_of(inputs, 0), some = points_of(inputs, 4000);
  EXPECT_EQ(some.sizes().vec(), (std::vector<std::int64_t>{12, 4000}));
  EXPECT_LT((whole.matmul(whole.t()) - some.matmul(some.t())).abs().max().item().toDouble(), 0.08);
  EXPECT_TRUE(at::equal(points_of(inputs, 16), points_of(inputs, 16)));
  EXPECT_FALSE(at::equal(points_of(inputs, 16), points_of(inputs, 16, 1)));
}

TEST(Split, a_neuron_that_never_fires_is_a_point_at_zero) {
  Case s(by_co_activations);
  s.sources[0].at("in_bias")[4] = -1000;
  const testing::TestActivations recorded(testing::normal({2, 3, 5}, Random(8)), 8);
  s.split->plan(s.sources, s.site, &recorded, Random(0));
  EXPECT_EQ(s.clusterer->points[4].abs().sum().item().toDouble(), 0);
  EXPECT_TRUE(s.clusterer->points.isfinite().all().item().toBool());
}

// expand() moves numbers alone, so a moment lands where its number does.
TEST(Split, moments_go_the_way_of_their_numbers) {
  Case s(3);
  s.split->plan(s.sources, s.site, nullptr, Random(0));
  EXPECT_TRUE(s.split->keeps_moments());
  TensorMap moments;
  for (const auto& [role, tensor] : s.sources[0]) moments[role] = tensor * 2 + 1;
  const TensorMap bank = s.split->expand(s.sources, s.site), moved = s.split->expand({moments}, s.site);
  for (const auto& [role, tensor] : bank) EXPECT_TRUE(at::equal(moved.at(role), tensor * 2 + 1)) << role;
}

std::string refusal(const Case& s, std::int64_t sources = 1) {
  Facts facts;
  facts.site = &s.site;
  facts.sources = sources;
  return testing::problems_of(*s.split, facts);
}

TEST(Split, what_cannot_be_is_refused_before_the_run) {
  EXPECT_EQ(refusal(Case(4)), "");
  EXPECT_EQ(refusal(Case(5)), "count: 12 neurons cannot be split into 5 experts of equal size; 4 or 6 would do");
  EXPECT_EQ(refusal(Case(13)), "count: 12 neurons cannot be split into 13 experts of equal size; 12 would do");
  EXPECT_EQ(refusal(Case(4), 2), ": splits one model, but 2 are read");
  EXPECT_EQ(refusal(Case(std::map<std::string, Value>{{"size", std::int64_t{5}}})),
            "size: 12 neurons cannot be split into experts of 5; 4 or 6 would do");
  EXPECT_EQ(refusal(Case(std::map<std::string, Value>{{"size", std::int64_t{4}}, {"count", std::int64_t{3}}})),
            "size: says the same as count: only one of them can be given");
  EXPECT_EQ(refusal(Case(std::map<std::string, Value>{})), "count: how many experts? count or size must be given");
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
