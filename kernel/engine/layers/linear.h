// y = x Wᵀ + b.
#ifndef MOIETY_KERNEL_ENGINE_LAYERS_LINEAR_H_
#define MOIETY_KERNEL_ENGINE_LAYERS_LINEAR_H_

#include <ATen/core/Tensor.h>

namespace moiety::engine {

/// x [R, n], weight [m, n], bias [m] or undefined → [R, m]. Floats go through oneDNN's products in fixed parts of the rows, other
/// types through at::linear.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_LAYERS_LINEAR_H_
