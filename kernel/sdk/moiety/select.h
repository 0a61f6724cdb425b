// The best of each row, in an order that is the same on every machine: torch.topk leaves open which of equal scores it takes.
#ifndef MOIETY_SELECT_H_
#define MOIETY_SELECT_H_

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace moiety {

/// Indices [R, k] of the k largest (or smallest) of each row of scores [R, N], best first; of equal scores the lower index comes
/// first. A score that is no number comes last. No gradient; 0 ≤ k ≤ N.
inline at::Tensor best_of_rows(const at::Tensor& scores, std::int64_t k, bool largest = true) {
  const at::Tensor rows = scores.detach().to(at::kCPU, at::kFloat).contiguous();
  const std::int64_t count = rows.size(0), n = rows.size(1);
  at::Tensor chosen = at::empty({count, k}, at::kLong);
  std::vector<float> row(static_cast<std::size_t>(n));
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  const float* from = rows.data_ptr<float>();
  std::int64_t* to = chosen.data_ptr<std::int64_t>();
  for (std::int64_t r = 0; r < count; ++r, from += n, to += k) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const float score = largest ? from[i] : -from[i];
      row[i] = score == score ? score : -std::numeric_limits<float>::infinity();
    }
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](std::int64_t a, std::int64_t b) {
      const float x = row[static_cast<std::size_t>(a)], y = row[static_cast<std::size_t>(b)];
      return x > y || (x == y && a < b);
    });
    std::copy_n(order.begin(), k, to);
  }
  return chosen.to(scores.device());
}

}  // namespace moiety

#endif  // MOIETY_SELECT_H_
