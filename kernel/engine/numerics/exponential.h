// exp and tanh of floats in a form that compilers turn into vector code: no branch, no table, no library call.
#ifndef MOIETY_KERNEL_ENGINE_NUMERICS_EXPONENTIAL_H_
#define MOIETY_KERNEL_ENGINE_NUMERICS_EXPONENTIAL_H_

#include <cstdint>
#include <cstring>

#include "kernel/engine/numerics/clones.h"

namespace moiety::engine {

/// exp(x) to 2 ulp for x in [-87, 88]; smaller x give exp(-87), larger ones exp(88). NaN gives NaN.
MOIETY_INLINE float fast_exp(float x) {
  const float bounded = x < -87.0F ? -87.0F : (x > 88.0F ? 88.0F : x);
  const float shifted = bounded * 1.44269504F + 12582912.0F;  // 1.5 · 2^23: the nearest integer in the low bits
  std::uint32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  const float n = shifted - 12582912.0F;
  const float r = (bounded - n * 0.693359375F) + n * 2.12194440e-4F;  // ln 2 in two parts (Cephes, expf)
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const std::uint32_t power = (bits + 127U) << 23;
  float scale;
  std::memcpy(&scale, &power, sizeof scale);
  return p * scale;
}

/// tanh(x) to 2e-7 absolute.
MOIETY_INLINE float fast_tanh(float x) { return 1.0F - 2.0F / (fast_exp(2.0F * x) + 1.0F); }

/// GELU in the tanh form of GPT-2, and its derivative.
MOIETY_INLINE float gelu(float x) {
  const float t = fast_tanh(0.7978845608F * (x + 0.044715F * x * x * x));
  return 0.5F * x * (1.0F + t);
}
MOIETY_INLINE float gelu_slope(float x) {
  const float t = fast_tanh(0.7978845608F * (x + 0.044715F * x * x * x));
  return 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * 0.7978845608F * (1.0F + 0.134145F * x * x);
}

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_NUMERICS_EXPONENTIAL_H_
