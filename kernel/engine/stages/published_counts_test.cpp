// Parameters and operations of models that a paper gives, counted by what `plan` counts with: Zhang et al., BAM, NeurIPS 2024,
// tables of the two model sizes and of the matched baselines.
#include <gtest/gtest.h>

#include "kernel/engine/model/cost.h"
#include "kernel/engine/stages/site_making.h"
#include "kernel/engine/testing/job_fixture.h"

namespace moiety::engine {
namespace {

using nlohmann::json;
using testing::TinyStore;

/// The smaller model of the paper. Its "FFN dimension" of 4096 is the width of the two matrices of SwiGLU together.
Architecture small_model() {
  Architecture a;
  a.layers = 6;
  a.width = 1024;
  a.heads = 8;
  a.inner = 2048;
  a.context = 2048;
  a.vocabulary = 256000;
  a.activation = Activation::swiglu;
  a.position = Position::rotary;
  a.block = BlockForm::parallel;
  a.read_out = ReadOut::untied;
  a.biases = false;
  return a;
}

class Published : public ::testing::Test {
 protected:
  Published() {
    const auto job = Job::from_json(store_.pretrain("unused"));
    for (const auto& component : job->components) EXPECT_TRUE(components_.load(component.file));
  }
  /// Experts of four models in every layer.
  void add(PlannedModel& model, Place place, const json& experts, const json& router) const {
    for (std::int64_t layer = 0; layer < model.architecture.layers; ++layer) {
      ConfigProblems problems;
      auto parts = make_parts(components_, {{"experts", experts}, {"router", router}}, "site",
                              site_of(model.architecture, place, layer), 4, 0, problems);
      ASSERT_TRUE(parts) << problems.front().path << ": " << problems.front().message;
      add_planned_site(model, std::move(*parts));
    }
  }
  PlannedModel bam(const char* keys_values) const {
    PlannedModel model = dense_facts(small_model());
    add(model, Place::attention, {{"use", "attention"}, {"keys_values", keys_values}}, {{"use", "soft"}});
    add(model, Place::feed_forward, {{"use", "merge"}}, {{"use", "top-k"}, {"k", 1}});
    return model;
  }
  PlannedModel btx(int seed_copies, int k) const {
    PlannedModel model = dense_facts(small_model());
    add(model, Place::feed_forward, {{"use", "merge"}, {"seed_copies", seed_copies}}, {{"use", "top-k"}, {"k", k}});
    return model;
  }

  TinyStore store_;
  ComponentSet components_;
};

TEST_F(Published, parameters_of_the_dense_models) {
  EXPECT_EQ(dense_facts(small_model()).total, 587209728);
  Architecture large = small_model();
  large.layers = 18;
  large.width = 2304;
  large.heads = 18;
  large.kv_heads = 6;
  large.inner = 9216;
  large.read_out = ReadOut::tied;
  EXPECT_EQ(dense_facts(large).total, 1991289600) << "1.99 B";
}

TEST_F(Published, parameters_of_merged_models) {
  const PlannedModel own = bam("own"), shared = bam("shared"), six = btx(2, 3);
  EXPECT_EQ(own.total, 776002560);
  EXPECT_EQ(shared.total, 738253824);
  EXPECT_EQ(six.total, 775990272) << "six experts match four attentions: 3 · 4d² = 2 · 6d² where the paper's F is 4d";
  EXPECT_EQ(btx(0, 1).total, 700480512);
  // Active: of the feed-forward experts of 1.5 d F numbers a token runs one, or three of six.
  EXPECT_EQ(own.active, 776002560 - 3 * 6 * 6291456);
  EXPECT_EQ(shared.active, 738253824 - 3 * 6 * 6291456);
  EXPECT_EQ(six.active, 775990272 - 3 * 6 * 6291456);
}

// The paper counts 2·n·d for a token that sees n others, we count the n/2 that it sees on average and itself, in two products: 2d
// an attention more. And it counts 1.5 operations for each of the F numbers that enter SwiGLU, we count products of matrices
// alone.
TEST_F(Published, operations_of_a_token_and_layer) {
  const double n = 256, d = 1024, f = 4096;
  const auto published_from = [&](const PlannedModel& model, double attentions, double feed_forwards) {
    Work work;
    work.add_sequences(1, n);
    return forward_flops(model, work) / n / 6 - 2 * d * attentions + 1.5 * f * feed_forwards;
  };
  EXPECT_DOUBLE_EQ(published_from(bam("own"), 4, 1), 48257024);
  EXPECT_DOUBLE_EQ(published_from(btx(0, 1), 1, 1), 21510144);
  EXPECT_DOUBLE_EQ(published_from(btx(2, 3), 1, 3), 46692352);
}

}  // namespace
}  // namespace moiety::engine
