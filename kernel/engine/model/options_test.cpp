// Every option of the model, and every two of them together.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "kernel/engine/model/cost.h"
#include "kernel/engine/model/gpt.h"
#include "kernel/engine/testing/exact_gradients.h"
#include "kernel/engine/testing/fake_components.h"
#include "kernel/engine/testing/tensors.h"

namespace moiety::engine {
namespace {

struct Change {
  std::string name;
  std::function<void(Architecture&)> make;
};

const std::vector<Change>& changes() {
  static const auto* list = new std::vector<Change>{{"relu", [](Architecture& a) { a.activation = Activation::relu; }},
                                                    {"swiglu", [](Architecture& a) { a.activation = Activation::swiglu; }},
                                                    {"rotary", [](Architecture& a) { a.position = Position::rotary; }},
                                                    {"parallel", [](Architecture& a) { a.block = BlockForm::parallel; }},
                                                    {"rms", [](Architecture& a) { a.norm = NormKind::rms; }},
                                                    {"untied", [](Architecture& a) { a.read_out = ReadOut::untied; }},
                                                    {"no_biases", [](Architecture& a) { a.biases = false; }},
                                                    {"shared_keys", [](Architecture& a) { a.kv_heads = 1; }}};
  return *list;
}

struct Options {
  std::string name;
  Architecture architecture;
};

std::vector<Options> all_pairs() {
  std::vector<Options> list;
  const auto& all = changes();
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = i; j < all.size(); ++j) {
      Architecture a;
      a.layers = 2;
      a.width = 12;
      a.heads = 3;
      a.context = 10;
      a.inner = 20;
      a.vocabulary = 17;
      a.classes = 3;
      all[i].make(a);
      all[j].make(a);
      list.push_back({i == j ? all[i].name : all[i].name + "_and_" + all[j].name, a});
    }
  }
  return list;
}

/// test(architecture) for every option and every two.
void with_all_pairs(const std::function<void(const Architecture&)>& test) {
  for (const Options& options : all_pairs()) {
    SCOPED_TRACE(options.name);
    test(options.architecture);
  }
}

Sites sites_of(const Architecture& a, bool experts) { return experts ? testing::two_of_four_experts(a) : Sites{}; }

Batch batch_of(const std::vector<std::int64_t>& lengths) {
  Batch batch;
  for (const std::int64_t length : lengths) batch.spans.add(length);
  batch.tokens = testing::indices({batch.spans.rows()}, 17, 1);
  return batch;
}

TEST(ModelOptions, gradients_agree_with_differences) {
  with_all_pairs([](const Architecture& a) {
    Gpt model(a, sites_of(a, true), at::kDouble);  // experts in one layer, the other dense
    model.initialise(Random(1));
    const Batch batch = batch_of({7, 4});
    const at::Tensor targets = testing::indices({11}, 17, 2), labels = testing::indices({2}, 3, 3);
    const auto loss = [&] {
      ForwardContext context;
      context.training = true;
      return model.language_loss(batch, targets, context) + at::cross_entropy_loss(model.class_logits(batch, context), labels);
    };
    testing::expect_exact_gradients(model, loss, 1);
  });
}

TEST(ModelOptions, fast_forms_agree_with_double_and_with_the_plain_forms) {
  with_all_pairs([](const Architecture& a) {
    for (const bool experts : {false, true}) {
      Gpt fast(a, sites_of(a, experts)), exact(a, sites_of(a, experts), at::kDouble);
      fast.initialise(Random(1));
      testing::stir(fast);
      for (const auto& entry : fast.parameters().entries()) {
        const at::NoGradGuard no_gradient;
        exact.parameters().find(entry.name)->tensor->copy_(*entry.tensor);
      }
      const Batch batch = batch_of({10, 5, 1});
      const at::Tensor targets = testing::indices({16}, 17, 2);
      ForwardContext of_fast, of_exact, of_plain;
      of_plain.twice = true;
      const at::Tensor loss = fast.language_loss(batch, targets, of_fast), wanted = exact.language_loss(batch, targets, of_exact),
                       plain = fast.language_loss(batch, targets, of_plain);
      EXPECT_NEAR(loss.item<double>(), wanted.item<double>(), 1e-4);
      EXPECT_NEAR(plain.item<double>(), wanted.item<double>(), 1e-4);
      loss.backward();
      wanted.backward();
      for (const auto& entry : fast.parameters().entries()) {
        const at::Tensor should = exact.parameters().find(entry.name)->tensor->grad();
        if (!should.defined()) continue;
        EXPECT_LT((entry.tensor->grad() - should).abs().max().item<double>(), 1e-4 + 1e-4 * should.abs().max().item<double>())
            << entry.name;
      }
    }
  });
}

TEST(ModelOptions, a_sequence_is_computed_as_if_alone_and_its_last_row_is_the_last_of_all) {
  with_all_pairs([](const Architecture& a) {
    Gpt model(a, sites_of(a, false));
    model.initialise(Random(1));
    testing::stir(model);
    const at::NoGradGuard no_gradient;
    const Batch batch = batch_of({4, 9});
    Batch alone;
    alone.spans.add(9);
    alone.tokens = batch.tokens.narrow(0, 4, 9);
    ForwardContext context;
    const at::Tensor all = model.hidden(batch, context);
    EXPECT_LT((all.narrow(0, 4, 9) - model.hidden(alone, context)).abs().max().item<double>(), 1e-4);
    EXPECT_LT(
        (all.index_select(0, at::tensor({3, 12}, at::kLong)) - model.last_hidden(batch, context)).abs().max().item<double>(),
        1e-4);
    Batch other = batch;
    other.tokens = batch.tokens.clone();
    other.tokens[12].fill_((batch.tokens[12].item<std::int64_t>() + 1) % 17);
    EXPECT_LT((all.narrow(0, 0, 12) - model.hidden(other, context).narrow(0, 0, 12)).abs().max().item<double>(), 1e-5)
        << "the present does not see the future";
  });
}

TEST(ModelOptions, counts_are_those_of_what_is_declared) {
  with_all_pairs([](const Architecture& a) {
    Gpt dense(a, {}), sparse(a, sites_of(a, true));
    EXPECT_EQ(dense_facts(a).total, static_cast<double>(dense.parameters().total()));
    EXPECT_EQ(facts_of(sparse).total, static_cast<double>(sparse.parameters().total()));
    double matrices = 0;
    for (const auto& entry : dense.parameters().entries())
      if (entry.name.rfind("layer", 0) == 0 && entry.spec.shape.size() == 2) matrices += static_cast<double>(entry.size());
    Work work;
    work.tokens = 1;
    EXPECT_DOUBLE_EQ(forward_flops(facts_of(dense), work), 2 * matrices);
  });
}

TEST(ModelOptions, is_written_with_the_model_and_read_again) {
  with_all_pairs([](const Architecture& a) {
    const auto read = Architecture::from_json(a.to_json());
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->to_json(), a.to_json());
  });
}

TEST(Architecture, what_cannot_be_is_said) {
  const auto problem = [](const std::function<void(Architecture&)>& change) {
    Architecture a;
    a.vocabulary = 17;
    change(a);
    return a.problem();
  };
  EXPECT_EQ(problem([](Architecture&) {}), "");
  EXPECT_EQ(problem([](Architecture& a) { a.kv_heads = 3; }), "3 heads of keys and values do not divide 4 heads");
  EXPECT_EQ(problem([](Architecture& a) { a.heads = 128, a.position = Position::rotary; }),
            "rotary positions turn pairs of numbers, but a head is 1 wide");
  Architecture plain;
  plain.vocabulary = 17;
  nlohmann::json json = plain.to_json();
  json["activation"] = "mish";
  const auto read = Architecture::from_json(json);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "the model's description has an option that this version does not know");
}

}  // namespace
}  // namespace moiety::engine
