// Tensors of keyed random numbers, and differentiation by differences, for tests.
#ifndef MOIETY_KERNEL_ENGINE_TESTING_TENSORS_H_
#define MOIETY_KERNEL_ENGINE_TESTING_TENSORS_H_

#include <ATen/ATen.h>

#include <cmath>
#include <functional>
#include <vector>

#include "moiety/random.h"

namespace moiety::engine::testing {

inline at::Tensor normal(const std::vector<std::int64_t>& shape, std::uint64_t seed, at::ScalarType type = at::kFloat) {
  at::Tensor tensor = at::empty(shape, at::TensorOptions(at::kDouble));
  Random random(seed);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.data_ptr<double>()[i] = random.normal();
  return tensor.to(type);
}

inline at::Tensor indices(const std::vector<std::int64_t>& shape, std::int64_t below, std::uint64_t seed) {
  at::Tensor tensor = at::empty(shape, at::TensorOptions(at::kLong));
  Random random(seed);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.data_ptr<std::int64_t>()[i] = random.below(below);
  return tensor;
}

/// Largest difference between `gradient` and central differences of `value` at up to `samples` places of `tensor`, which is
/// changed in place and put back. Double only.
inline double gradient_error(const std::function<double()>& value, const at::Tensor& tensor, const at::Tensor& gradient,
                             std::int64_t samples, std::uint64_t seed) {
  double worst = 0;
  Random random(seed);
  double* numbers = tensor.data_ptr<double>();
  const at::Tensor plain = gradient.contiguous();
  const std::int64_t n = tensor.numel();
  for (std::int64_t s = 0; s < std::min(samples, n); ++s) {
    const std::int64_t i = samples >= n ? s : random.below(n);
    const double kept = numbers[i], step = 1e-5;
    numbers[i] = kept + step;
    const double above = value();
    numbers[i] = kept - step;
    const double below = value();
    numbers[i] = kept;
    worst = std::max(worst, std::abs((above - below) / (2 * step) - plain.data_ptr<double>()[i]));
  }
  return worst;
}

}  // namespace moiety::engine::testing

#endif  // MOIETY_KERNEL_ENGINE_TESTING_TENSORS_H_
