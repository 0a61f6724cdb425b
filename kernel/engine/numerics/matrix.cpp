#include "kernel/engine/numerics/matrix.h"

#include <oneapi/dnnl/dnnl.h>

#include <cstring>
#include <stdexcept>
#include <string>

#include "kernel/engine/numerics/clones.h"

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

namespace {

using Eight = float __attribute__((vector_size(32)));

/// A square of 8 by 8, in three rounds of exchanges between rows that are 1, 2 and 4 apart.
MOIETY_INLINE void transpose_square(const float* in, std::int64_t in_stride, float* out, std::int64_t out_stride) {
  Eight a[8], b[8];
  for (int i = 0; i < 8; ++i) std::memcpy(&a[i], in + i * in_stride, sizeof(Eight));
  for (int i = 0; i < 8; i += 2) {
    b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int j = i; j < i + 2; ++j) {
      a[j] = __builtin_shufflevector(b[j], b[j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      a[j + 2] = __builtin_shufflevector(b[j], b[j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int j = 0; j < 4; ++j) {
    b[j] = __builtin_shufflevector(a[j], a[j + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    b[j + 4] = __builtin_shufflevector(a[j], a[j + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int i = 0; i < 8; ++i) std::memcpy(out + i * out_stride, &b[i], sizeof(Eight));
}

}  // namespace

MOIETY_CLONES void transpose(std::int64_t rows, std::int64_t columns, ConstBlock in, Block out) {
  const std::int64_t whole_rows = rows / 8 * 8, whole_columns = columns / 8 * 8;
  for (std::int64_t c = 0; c < whole_columns; c += 8)
    for (std::int64_t r = 0; r < whole_rows; r += 8)
      transpose_square(in.data + r * in.stride + c, in.stride, out.data + c * out.stride + r, out.stride);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c)
      out.data[c * out.stride + r] = in.data[r * in.stride + c];
}

}  // namespace moiety::engine
