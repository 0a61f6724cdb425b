// What constructors have in common that read dense layers role by role.
#ifndef MOIETY_PLUGINS_EXPERT_CONSTRUCTORS_DENSE_LAYERS_H_
#define MOIETY_PLUGINS_EXPERT_CONSTRUCTORS_DENSE_LAYERS_H_

#include <ATen/ATen.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "moiety/expert_constructor.h"

namespace moiety::constructors {

/// `shape` with a first dimension for the experts.
inline std::vector<std::int64_t> with_experts(std::int64_t experts, std::vector<std::int64_t> shape) {
  shape.insert(shape.begin(), experts);
  return shape;
}

/// The tensor of all experts for a role of one, with the start of a dense layer. Biases do not decay.
inline Spec of_experts(const Role& role, std::int64_t experts) {
  Spec all = spec(role.name, with_experts(experts, role.shape)).normal(role.deviation).of_experts();
  all.decays = !role.is_bias();
  return all;
}

/// The same with one tensor for all of them.
inline Spec shared_by_experts(const Role& role) {
  Spec one = of_experts(role, 1);
  one.per_expert = false;
  return one;
}

/// A role of a model that was read; a bias that it has not is 0.
inline at::Tensor read_role(const TensorMap& dense, const Role& role) {
  const auto found = dense.find(role.name);
  if (found != dense.end()) return found->second.detach();
  if (!role.is_bias()) throw std::invalid_argument("the model read has no `" + role.name + "`");
  return at::zeros(role.shape, dense.begin()->second.options().requires_grad(false));
}

/// Throws unless every model has the site's matrices.
inline void expect_matrices(const Sources& sources, const Site& site) {
  for (std::size_t n = 0; n < sources.size(); ++n) {
    for (const Role& role : layer_roles(site)) {
      if (role.is_bias()) continue;
      const auto found = sources[n].find(role.name);
      if (found == sources[n].end() || found->second.sizes() != at::IntArrayRef(role.shape))
        throw std::invalid_argument("model " + std::to_string(n + 1) + " of those read has no `" + role.name +
                                    "` of the shape of the first one's");
    }
  }
}

/// The mean, taken in double.
inline at::Tensor mean_of(const at::Tensor& all) { return all.to(at::kDouble).mean(0).to(all.scalar_type()); }

}  // namespace moiety::constructors

#endif  // MOIETY_PLUGINS_EXPERT_CONSTRUCTORS_DENSE_LAYERS_H_
