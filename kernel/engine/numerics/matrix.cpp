#include "kernel/engine/numerics/matrix.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace moiety::engine {

void product(Form form_a, Form form_b, std::int64_t m, std::int64_t n, std::int64_t k, ConstBlock a, ConstBlock b, Block c,
             float keep, float scale) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) c.data[i * c.stride + j] *= keep;
    return;
  }
  const auto letter = [](Form form) { return form == Form::plain ? 'N' : 'T'; };
  const dnnl_status_t status =
      dnnl_sgemm(letter(form_a), letter(form_b), m, n, k, scale, a.data, a.stride, b.data, b.stride, keep, c.data, c.stride);
  if (status != dnnl_success) throw std::runtime_error("oneDNN's sgemm failed with status " + std::to_string(status));
}

void transpose(std::int64_t rows, std::int64_t columns, ConstBlock in, Block out) {
  constexpr std::int64_t tile = 16;
  for (std::int64_t r0 = 0; r0 < rows; r0 += tile) {
    const std::int64_t r1 = std::min(rows, r0 + tile);
    for (std::int64_t c0 = 0; c0 < columns; c0 += tile) {
      const std::int64_t c1 = std::min(columns, c0 + tile);
      for (std::int64_t c = c0; c < c1; ++c)
        for (std::int64_t r = r0; r < r1; ++r) out.data[c * out.stride + r] = in.data[r * in.stride + c];
    }
  }
}

}  // namespace moiety::engine
