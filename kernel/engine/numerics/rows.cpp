#include "kernel/engine/numerics/rows.h"

#include <cstring>

#include "kernel/engine/numerics/clones.h"
#include "kernel/engine/numerics/exponential.h"

namespace moiety::engine {

namespace {

MOIETY_CLONES void activate_gelu(const float* before, float* after, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) after[i] = gelu(before[i]);
}

MOIETY_CLONES void activate_gelu_backward(const float* before, const float* d, float* after, float* into, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) {
    const float x = before[i];
    const float t = fast_tanh(0.7978845608F * (x + 0.044715F * x * x * x));
    after[i] = 0.5F * x * (1.0F + t);
    into[i] = d[i] * (0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * 0.7978845608F * (1.0F + 0.134145F * x * x));
  }
}

MOIETY_CLONES void activate_relu(const float* before, float* after, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) after[i] = before[i] > 0.0F ? before[i] : 0.0F;
}

MOIETY_CLONES void activate_relu_backward(const float* before, const float* d, float* after, float* into, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) {
    after[i] = before[i] > 0.0F ? before[i] : 0.0F;
    into[i] = before[i] > 0.0F ? d[i] : 0.0F;
  }
}

MOIETY_CLONES void activate_swiglu(const float* before, float* after, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) after[i] = before[i] / (1.0F + fast_exp(-before[i])) * before[size + i];
}

MOIETY_CLONES void activate_swiglu_backward(const float* before, const float* d, float* after, float* into, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) {
    const float x = before[i], up = before[size + i], s = 1.0F / (1.0F + fast_exp(-x)), given = d[i];
    after[i] = x * s * up;
    into[i] = given * up * s * (1.0F + x * (1.0F - s));
    into[size + i] = given * x * s;
  }
}

}  // namespace

void activate(Activation activation, const float* before, float* after, std::int64_t size) {
  switch (activation) {
    case Activation::gelu:
      return activate_gelu(before, after, size);
    case Activation::relu:
      return activate_relu(before, after, size);
    case Activation::swiglu:
      return activate_swiglu(before, after, size);
  }
}

void activate_backward(Activation activation, const float* before, const float* d, float* after, float* into, std::int64_t size) {
  switch (activation) {
    case Activation::gelu:
      return activate_gelu_backward(before, d, after, into, size);
    case Activation::relu:
      return activate_relu_backward(before, d, after, into, size);
    case Activation::swiglu:
      return activate_swiglu_backward(before, d, after, into, size);
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
