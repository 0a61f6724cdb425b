#include "kernel/engine/data/tf_idf.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace moiety::engine {
namespace {

/// How often each token occurs in each window; `weight`: of a token, then rows are made as long as 1.
SparseMatrix occurrences(const at::Tensor& tokens, std::int64_t vocabulary, const double* weight) {
  const at::Tensor all = tokens.contiguous();
  const std::int64_t length = all.size(1);
  const auto* from = all.data_ptr<std::int64_t>();
  SparseMatrix matrix;
  matrix.columns = vocabulary;
  std::vector<std::int64_t> row(static_cast<std::size_t>(length));
  for (std::int64_t w = 0; w < all.size(0); ++w, from += length) {
    row.assign(from, from + length);
    std::sort(row.begin(), row.end());
    const std::size_t start = matrix.value.size();
    double squares = 0;
    for (std::size_t i = 0; i < row.size();) {
      const std::size_t first = i;
      while (i < row.size() && row[i] == row[first]) ++i;
      if (row[first] < 0 || row[first] >= vocabulary) throw std::out_of_range("a token is outside the vocabulary");
      const double count = static_cast<double>(i - first) * (weight == nullptr ? 1 : weight[row[first]]);
      matrix.column.push_back(row[first]);
      matrix.value.push_back(count);
      squares += count * count;
    }
    if (weight != nullptr && squares > 0)
      for (std::size_t i = start; i < matrix.value.size(); ++i) matrix.value[i] /= std::sqrt(squares);
    matrix.begin.push_back(static_cast<std::int64_t>(matrix.value.size()));
  }
  return matrix;
}

at::Tensor orthonormal(const at::Tensor& columns) { return std::get<0>(at::linalg_qr(columns)); }

}  // namespace

at::Tensor SparseMatrix::times(const at::Tensor& dense) const {
  const at::Tensor x = dense.contiguous();
  const std::int64_t k = x.size(1);
  at::Tensor y = at::zeros({rows(), k}, at::kDouble);
  for (std::int64_t r = 0; r < rows(); ++r) {
    double* to = y.data_ptr<double>() + r * k;
    for (std::int64_t e = begin[static_cast<std::size_t>(r)]; e < begin[static_cast<std::size_t>(r) + 1]; ++e) {
      const double* from = x.data_ptr<double>() + column[static_cast<std::size_t>(e)] * k;
      const double factor = value[static_cast<std::size_t>(e)];
      for (std::int64_t i = 0; i < k; ++i) to[i] += factor * from[i];
    }
  }
  return y;
}

at::Tensor SparseMatrix::transposed_times(const at::Tensor& dense) const {
  const at::Tensor x = dense.contiguous();
  const std::int64_t k = x.size(1);
  at::Tensor y = at::zeros({columns, k}, at::kDouble);
  for (std::int64_t r = 0; r < rows(); ++r) {
    const double* from = x.data_ptr<double>() + r * k;
    for (std::int64_t e = begin[static_cast<std::size_t>(r)]; e < begin[static_cast<std::size_t>(r) + 1]; ++e) {
      double* to = y.data_ptr<double>() + column[static_cast<std::size_t>(e)] * k;
      const double factor = value[static_cast<std::size_t>(e)];
      for (std::int64_t i = 0; i < k; ++i) to[i] += factor * from[i];
    }
  }
  return y;
}

at::Tensor right_singular_vectors(const SparseMatrix& matrix, std::int64_t k, Random random) {
  const std::int64_t most = std::min(matrix.rows(), matrix.columns);
  if (k < 1 || k > most)
    throw std::invalid_argument("there are " + std::to_string(most) + " singular vectors at most, not " + std::to_string(k));
  constexpr int power_iterations = 6;
  const std::int64_t width = std::min(most, k + 10);  // some more than wanted, which the last of them need
  at::Tensor start = at::empty({matrix.columns, width}, at::kDouble);
  for (std::int64_t i = 0; i < start.numel(); ++i) start.data_ptr<double>()[i] = random.normal();
  at::Tensor basis = orthonormal(matrix.times(start));
  for (int i = 0; i < power_iterations; ++i) basis = orthonormal(matrix.times(orthonormal(matrix.transposed_times(basis))));
  // A ≈ Q Qᵀ A, and the right vectors of the small Qᵀ A come from its transpose.
  const at::Tensor small = matrix.transposed_times(basis);  // [columns, width] = (Qᵀ A)ᵀ = V S Uᵀ
  at::Tensor right = std::get<0>(at::linalg_svd(small, false)).narrow(1, 0, k).contiguous();
  const at::Tensor largest = right.gather(0, right.abs().argmax(0, true));
  return right * at::where(largest < 0, -at::ones_like(largest), at::ones_like(largest));
}

TfIdf TfIdf::fit(const at::Tensor& tokens, std::int64_t vocabulary, std::int64_t dimensions, const Random& random) {
  const SparseMatrix counts = occurrences(tokens, vocabulary, nullptr);
  TfIdf made;
  made.idf = at::zeros({vocabulary}, at::kDouble);
  double* idf = made.idf.data_ptr<double>();
  for (const std::int64_t token : counts.column) idf[token] += 1;
  for (std::int64_t t = 0; t < vocabulary; ++t) idf[t] = std::log((1 + static_cast<double>(counts.rows())) / (1 + idf[t])) + 1;
  made.right = right_singular_vectors(occurrences(tokens, vocabulary, idf), dimensions, random);
  return made;
}

at::Tensor TfIdf::points(const at::Tensor& tokens) const {
  const at::Tensor projected = occurrences(tokens, idf.size(0), idf.contiguous().data_ptr<double>()).times(right);
  return (projected / projected.norm(2, 1, true).clamp_min(1e-12)).to(at::kFloat);
}

}  // namespace moiety::engine
