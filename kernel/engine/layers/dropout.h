// Dropout whose mask is a function of a random stream: nothing to be saved, and a step can be repeated.
#ifndef MOIETY_KERNEL_ENGINE_LAYERS_DROPOUT_H_
#define MOIETY_KERNEL_ENGINE_LAYERS_DROPOUT_H_

#include <ATen/core/Tensor.h>

#include "moiety/random.h"

namespace moiety::engine {

/// x with each number set to 0 with the given probability and the others divided by 1 − probability; x itself for probability 0.
at::Tensor dropout(const at::Tensor& x, double probability, Random random);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_LAYERS_DROPOUT_H_
