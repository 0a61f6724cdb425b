#include "kernel/engine/numerics/rows.h"

#include <cstring>

#include "kernel/engine/numerics/clones.h"
#include "kernel/engine/numerics/exponential.h"

namespace moiety::engine {

MOIETY_CLONES void activate(const float* before, float* after, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) after[i] = gelu(before[i]);
}

MOIETY_CLONES void activate_backward(const float* before, float* after, float* gradient, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) {
    const float x = before[i];
    const float t = fast_tanh(0.7978845608F * (x + 0.044715F * x * x * x));
    after[i] = 0.5F * x * (1.0F + t);
    gradient[i] *= 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * 0.7978845608F * (1.0F + 0.134145F * x * x);
  }
}

MOIETY_CLONES void scale_by(float* values, float factor, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) values[i] *= factor;
}

MOIETY_CLONES float dot(const float* a, const float* b, std::int64_t size) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

MOIETY_CLONES void add_to(float* sum, const float* values, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) sum[i] += values[i];
}

void fill_rows(float* rows, const float* row, std::int64_t count, std::int64_t size, std::int64_t stride) {
  for (std::int64_t r = 0; r < count; ++r) std::memcpy(rows + r * stride, row, static_cast<std::size_t>(size) * sizeof(float));
}

}  // namespace moiety::engine
