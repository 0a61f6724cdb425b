// RMSNorm: y = x / √(mean(x²) + ε) ⊙ gain. Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
#ifndef MOIETY_KERNEL_ENGINE_LAYERS_NORM_H_
#define MOIETY_KERNEL_ENGINE_LAYERS_NORM_H_

#include <ATen/core/Tensor.h>

namespace moiety::engine {

/// x [R, d], gain [d] → [R, d]; ε = 1e-5. Floats: one node; other types: plain_rms_norm().
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gain);

/// The plain reference, of ATen's own functions.
at::Tensor plain_rms_norm(const at::Tensor& x, const at::Tensor& gain);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_LAYERS_NORM_H_
