// Windows of text as points: which words they hold, weighed by how rare these are, in few dimensions. Words are token ids.
//
//   a_wt = n_wt · (ln((1 + W) / (1 + W_t)) + 1), rows of length 1      n: occurrences, W: windows, W_t: windows with token t
//   A ≈ U S Vᵀ,   point of a window: its row of A V, of length 1
//
// V by Halko, Martinsson and Tropp, "Finding structure with randomness" (SIAM Review 2011), with power iterations; as in c-BTM:
// Gururangan et al., "Scaling expert language models with unsupervised domain discovery" (2023).
#ifndef MOIETY_KERNEL_ENGINE_DATA_TF_IDF_H_
#define MOIETY_KERNEL_ENGINE_DATA_TF_IDF_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "moiety/random.h"

namespace moiety::engine {

/// A matrix of rows with few entries, in compressed rows. Products are added up in a fixed order.
struct SparseMatrix {
  std::int64_t columns = 0;
  std::vector<std::int64_t> begin{0}, column;  ///< row i has the entries [begin[i], begin[i + 1]), columns ascending
  std::vector<double> value;

  std::int64_t rows() const { return static_cast<std::int64_t>(begin.size()) - 1; }
  at::Tensor times(const at::Tensor& dense) const;             ///< [columns, k] double → [rows, k]
  at::Tensor transposed_times(const at::Tensor& dense) const;  ///< [rows, k] double → [columns, k]
};

/// [columns, k] double: the k first right singular vectors, orthonormal; the largest entry of each is positive. k at most the
/// smaller side.
at::Tensor right_singular_vectors(const SparseMatrix& matrix, std::int64_t k, Random random);

struct TfIdf {
  at::Tensor idf;    ///< [vocabulary] double
  at::Tensor right;  ///< [vocabulary, dimensions] double

  /// tokens [W, L] int64.
  static TfIdf fit(const at::Tensor& tokens, std::int64_t vocabulary, std::int64_t dimensions, const Random& random);
  at::Tensor points(const at::Tensor& tokens) const;  ///< [W, dimensions] float; a window that projects to nothing is 0
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_DATA_TF_IDF_H_
