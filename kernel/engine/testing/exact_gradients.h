// Gradients of a whole model against differences.
#ifndef MOIETY_KERNEL_ENGINE_TESTING_EXACT_GRADIENTS_H_
#define MOIETY_KERNEL_ENGINE_TESTING_EXACT_GRADIENTS_H_

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>

#include "kernel/engine/model/gpt.h"
#include "kernel/engine/testing/tensors.h"

namespace moiety::engine::testing {

/// Moves every number well away from its start, so that no path is negligible.
inline void stir(Gpt& model) {
  const at::NoGradGuard no_gradient;
  for (const auto& entry : model.parameters().entries())
    entry.tensor->add_(normal(entry.spec.shape, std::hash<std::string>{}(entry.name), entry.tensor->scalar_type()) * 0.3);
}

/// The gradients of `loss`, which the model in double computes, agree with differences at some places of each tensor.
inline void expect_exact_gradients(Gpt& model, const std::function<at::Tensor()>& loss, std::int64_t places = 6) {
  stir(model);
  model.parameters().zero_gradient();
  loss().backward();
  const auto value = [&] {
    const at::NoGradGuard no_gradient;
    return loss().item<double>();
  };
  for (const auto& entry : model.parameters().entries())
    EXPECT_LT(gradient_error(value, entry.tensor->detach(), entry.tensor->grad(), places, 3), 1e-7) << entry.name;
}

}  // namespace moiety::engine::testing

#endif  // MOIETY_KERNEL_ENGINE_TESTING_EXACT_GRADIENTS_H_
