// Inner products of the gradients of single windows, without a matrix of all gradients.
#ifndef MOIETY_PLUGINS_PROBES_GRADIENT_CONSISTENCY_GRAM_H_
#define MOIETY_PLUGINS_PROBES_GRADIENT_CONSISTENCY_GRAM_H_

#include <map>
#include <string>
#include <vector>

#include "moiety/model.h"

namespace moiety::consistency {

/// Θ = J Jᵀ [n, n] in double, J the gradients [n, P] of the windows over a scope, summed over pieces of the scope that fit.
/// Tensors asked for once are remembered for other scopes.
class Gram {
 public:
  Gram(const Model& model, Windows windows);
  at::Tensor of(const std::string& scope);

 private:
  void ask(const std::string& piece, const std::vector<std::string>& tensors);
  const Model& model_;
  Windows windows_;
  std::map<std::string, at::Tensor> of_tensor_;
};

struct Direction {
  at::Tensor vector;  ///< u [m], double, of length 1, its sum not negative
  bool clear = true;  ///< false: the sum is so near 0 that the sign says nothing
};
/// The eigenvector of the largest eigenvalue.
Direction top_direction(const at::Tensor& gram);

struct Consistency {
  double value = 0;  ///< cosine of the prevalent directions of two sets; its size where a sign is not clear
  bool clear = true;
};
/// g(X) = uᵀ J(X), so ⟨g(X), g(X′)⟩ = uᵀ Θ[X, X′] u′ and |g(X)|² = uᵀ Θ[X, X] u: everything is in Θ. Rows of Θ by number.
Consistency consistency(const at::Tensor& gram, const std::vector<std::int64_t>& whole, const std::vector<std::int64_t>& part);

}  // namespace moiety::consistency

#endif  // MOIETY_PLUGINS_PROBES_GRADIENT_CONSISTENCY_GRAM_H_
