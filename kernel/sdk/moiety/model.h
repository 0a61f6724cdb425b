// What may be asked of a model on windows of text: losses, gradients, Hessian-vector products. For probes and for mixing schedulers
// that look at gradients. Functions not given throw, so that a test makes the two it needs.
#ifndef MOIETY_MODEL_H_
#define MOIETY_MODEL_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "moiety/sampler.h"

namespace moiety {

/// Windows of a Data, by number.
using Windows = std::vector<std::int64_t>;

/// The windows at hand.
class Data {
 public:
  virtual ~Data() = default;
  virtual const std::vector<std::string>& domains() const = 0;
  virtual const WindowTable& table() const = 0;
  /// [n, L + 1] int64: the tokens of each window and the one after it.
  virtual at::Tensor tokens(const Windows&) const = 0;
  /// [V] int64: how often each token occurs in the training text.
  virtual at::Tensor token_counts() const = 0;
};

/// A scope says over which trained tensors: "all"; "body", without embeddings; "layer1", "layer1.attention", "layer1.feed_forward";
/// or one tensor's name. f(x) is the mean loss of the tokens of window x, without auxiliary losses and without dropout.
class Model {
 public:
  virtual ~Model() = default;
  virtual std::int64_t layers() const { throw unsupported("layers"); }
  /// Names of the tensors of a scope, in the order in which they lie in a flat vector.
  virtual std::vector<std::string> tensors(const std::string& scope) const { throw unsupported("tensors", scope); }
  virtual std::int64_t size(const std::string& scope) const { throw unsupported("size", scope); }
  /// [n, L]: the loss of each token.
  virtual at::Tensor token_losses(const Windows&) const { throw unsupported("token_losses"); }
  /// [P], flat: ∇ Σ wᵢ f(xᵢ). `weights` [n] double; undefined: 1/n each.
  virtual at::Tensor gradient(const Windows&, const at::Tensor& weights, const std::string& scope) const {
    throw unsupported("gradient", scope, weights.defined());
  }
  /// [n, P]: ∇ f(xᵢ) of each window. Ask for one tensor at a time where n·P would not fit.
  virtual at::Tensor example_gradients(const Windows&, const std::string& scope) const {
    throw unsupported("example_gradients", scope);
  }
  /// [P]: (∇² Σ wᵢ f(xᵢ)) v within the scope, exact.
  virtual at::Tensor hessian_product(const Windows&, const at::Tensor& weights, const at::Tensor& v,
                                     const std::string& scope) const {
    throw unsupported("hessian_product", scope, weights.defined() && v.defined());
  }
  /// [P]: what the optimizer multiplies a gradient by now, 1 / (√v̂ + ε) of AdamW; undefined when it has no moments.
  virtual at::Tensor preconditioner(const std::string& scope) const { throw unsupported("preconditioner", scope); }
  /// Mean f of the windows with `offset` [P] added to the scope's tensors for the time of the call.
  virtual double displaced_loss(const Windows&, const at::Tensor& offset, const std::string& scope) const {
    throw unsupported("displaced_loss", scope, offset.defined());
  }

 private:
  static std::logic_error unsupported(const std::string& function, const std::string& = {}, bool = false) {
    return std::logic_error("this model cannot be asked for " + function + "()");
  }
};

}  // namespace moiety

#endif  // MOIETY_MODEL_H_
