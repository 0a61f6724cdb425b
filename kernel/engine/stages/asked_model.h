// What components may ask of a model: losses of windows, gradients, Hessian-vector products. Nothing of it changes the model.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_ASKED_MODEL_H_
#define MOIETY_KERNEL_ENGINE_STAGES_ASKED_MODEL_H_

#include <functional>
#include <string>
#include <vector>

#include "kernel/engine/model/gpt.h"
#include "kernel/engine/stages/window_pool.h"
#include "moiety/model.h"

namespace moiety::engine {

class AskedModel final : public Model {
 public:
  /// Windows are those of `pool`. `preconditioner`: what the optimizer multiplies each number by now, flat as the parameters lie;
  /// empty: there is no optimizer. All must outlive it.
  AskedModel(const Gpt& model, const WindowPool& pool, const WindowLabels& labels,
             std::function<at::Tensor()> preconditioner = {});

  std::int64_t layers() const override { return model_.architecture().layers; }
  std::vector<std::string> tensors(const std::string& scope) const override;
  std::int64_t size(const std::string& scope) const override;
  at::Tensor token_losses(const Windows& windows) const override;
  at::Tensor gradient(const Windows& windows, const at::Tensor& weights, const std::string& scope) const override;
  at::Tensor example_gradients(const Windows& windows, const std::string& scope) const override;
  at::Tensor hessian_product(const Windows& windows, const at::Tensor& weights, const at::Tensor& v,
                             const std::string& scope) const override;
  at::Tensor preconditioner(const std::string& scope) const override;
  double displaced_loss(const Windows& windows, const at::Tensor& offset, const std::string& scope) const override;

  /// Tokens that went forward so far; a gradient counts three times, a product with the Hessian nine times.
  double forward_tokens() const { return forward_tokens_; }

 private:
  using Entries = std::vector<const ParameterStore::Entry*>;
  Entries entries(const std::string& scope) const;
  std::vector<at::Tensor> parameters(const Entries& entries) const;
  /// Σ wᵢ f(xᵢ) of the windows [first, first + count), differentiable.
  at::Tensor weighted_loss(const Windows& windows, std::int64_t first, std::int64_t count, const at::Tensor& weights,
                           bool twice) const;

  const Gpt& model_;
  const WindowPool& pool_;
  const WindowLabels& labels_;
  std::function<at::Tensor()> preconditioner_;
  mutable double forward_tokens_ = 0;
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_ASKED_MODEL_H_
