#include "kernel/engine/layers/dropout.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

namespace moiety::engine {

at::Tensor dropout(const at::Tensor& x, double probability, Random random) {
  if (probability <= 0) return x;
  const at::Generator generator = at::detail::createCPUGenerator(random.bits());
  at::Tensor mask;
  {
    const at::NoGradGuard no_gradient;
    mask = at::empty_like(x).bernoulli_(1 - probability, generator).div_(1 - probability);
  }
  return x * mask;
}

}  // namespace moiety::engine
