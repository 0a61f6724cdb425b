#include "kernel/engine/data/tf_idf.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernel/engine/testing/tensors.h"

namespace moiety::engine {
namespace {

/// A sparse matrix and the same one dense: about a third of the entries are there.
std::pair<SparseMatrix, at::Tensor> random_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  Random random(seed);
  SparseMatrix sparse;
  sparse.columns = columns;
  at::Tensor dense = at::zeros({rows, columns}, at::kDouble);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      if (random.below(3) > 0) continue;
      sparse.column.push_back(c);
      sparse.value.push_back(random.normal());
      dense[r][c] = sparse.value.back();
    }
    sparse.begin.push_back(static_cast<std::int64_t>(sparse.value.size()));
  }
  return {sparse, dense};
}

TEST(SparseMatrix, products_are_those_of_the_dense_matrix) {
  const auto made = random_matrix(13, 9, 1);
  const at::Tensor right = testing::normal({9, 4}, 2, at::kDouble), left = testing::normal({13, 4}, 3, at::kDouble);
  EXPECT_TRUE(at::allclose(made.first.times(right), made.second.matmul(right), 1e-12, 1e-12));
  EXPECT_TRUE(at::allclose(made.first.transposed_times(left), made.second.t().matmul(left), 1e-12, 1e-12));
}

TEST(SparseMatrix, singular_vectors_are_those_of_the_dense_matrix) {
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{60, 25}, {20, 40}}) {
    const auto made = random_matrix(rows, columns, 4);
    const at::Tensor found = right_singular_vectors(made.first, 5, Random(1));
    const at::Tensor exact = std::get<2>(at::linalg_svd(made.second, false)).narrow(0, 0, 5).t();
    // Up to the sign.
    EXPECT_TRUE(at::allclose((found * exact).sum(0).abs(), at::ones({5}, at::kDouble), 1e-3, 1e-3));
    EXPECT_TRUE(at::allclose(found.t().matmul(found), at::eye(5, at::kDouble), 1e-10, 1e-10));
    EXPECT_GT(found.gather(0, found.abs().argmax(0, true)).min().item<double>(), 0);
    EXPECT_TRUE(at::equal(found, right_singular_vectors(made.first, 5, Random(1)))) << "the same for the same stream";
  }
  EXPECT_THROW(right_singular_vectors(random_matrix(4, 9, 1).first, 5, Random(1)), std::invalid_argument);
}

TEST(TfIdf, points_are_what_the_definition_says) {
  const at::Tensor tokens = testing::indices({30, 12}, 20, 5);
  const TfIdf made = TfIdf::fit(tokens, 20, 6, Random(2));
  at::Tensor counts = at::zeros({30, 20}, at::kDouble);
  for (std::int64_t w = 0; w < 30; ++w)
    for (std::int64_t i = 0; i < 12; ++i) counts[w][tokens[w][i].item<std::int64_t>()] += 1;
  const at::Tensor idf = at::log(31.0 / (1 + (counts > 0).sum(0).to(at::kDouble))) + 1;
  EXPECT_TRUE(at::allclose(made.idf, idf, 1e-12, 1e-12));
  at::Tensor rows = counts * idf;
  rows = (rows / rows.norm(2, 1, true)).matmul(made.right);
  rows = rows / rows.norm(2, 1, true);
  EXPECT_TRUE(at::allclose(made.points(tokens).to(at::kDouble), rows, 1e-5, 1e-6));
  EXPECT_TRUE(at::equal(made.points(tokens.narrow(0, 7, 1)), made.points(tokens).narrow(0, 7, 1))) << "each on its own";
}

}  // namespace
}  // namespace moiety::engine
