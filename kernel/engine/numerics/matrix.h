// Products of row-major float matrices, on one core: whoever calls divides the work among threads.
#ifndef MOIETY_KERNEL_ENGINE_NUMERICS_MATRIX_H_
#define MOIETY_KERNEL_ENGINE_NUMERICS_MATRIX_H_

#include <cstdint>

namespace moiety::engine {

enum class Form { plain, transposed };

/// A block of a row-major matrix: `stride` floats from one row to the next.
struct ConstBlock {
  const float* data;
  std::int64_t stride;
};
struct Block {
  float* data;
  std::int64_t stride;
};

/// A stride for rows of `columns` numbers that is no multiple of a high power of two: rows of such a stride share few places of
/// the cache, and products with them ran at 50 instead of 80 GFLOP/s (oneDNN 2.6.3, Zen 3).
constexpr std::int64_t padded(std::int64_t columns) { return columns % 64 == 0 ? columns + 16 : columns; }

/// C [m, n] = keep·C + scale · op(A) op(B), op(A) [m, k], op(B) [k, n]. Equal calls give equal bits. A transposed A costs up to
/// half of the speed where k or n is large: transpose() the smaller operand first.
void product(Form form_a, Form form_b, std::int64_t m, std::int64_t n, std::int64_t k, ConstBlock a, ConstBlock b, Block c,
             float keep = 0, float scale = 1);

/// out [columns, rows] = in [rows, columns] transposed.
void transpose(std::int64_t rows, std::int64_t columns, ConstBlock in, Block out);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_NUMERICS_MATRIX_H_
