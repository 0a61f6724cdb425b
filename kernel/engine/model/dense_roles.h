// The tensors of a dense attention or feed-forward by role, as expert constructors read them, and where they lie in a model.
#ifndef MOIETY_KERNEL_ENGINE_MODEL_DENSE_ROLES_H_
#define MOIETY_KERNEL_ENGINE_MODEL_DENSE_ROLES_H_

#include <string>
#include <vector>

#include "moiety/site.h"
#include "moiety/weights.h"

namespace moiety::engine {

/// Names of the dense tensors of a place in a model: "layer1.feed_forward.in", …
std::vector<std::string> dense_names(Place place, std::int64_t layer);

/// By role (moiety/roles.h). A tensor that is not there is left out.
TensorMap dense_roles(const TensorMap& tensors, Place place, std::int64_t layer);

/// The other way: roles of one dense place, as a model names them.
TensorMap dense_tensors(const TensorMap& roles, Place place, std::int64_t layer);

/// Takes out what experts of a place declared: all its tensors but the norm's, and those for all sites.
void erase_experts(TensorMap& tensors, Place place, std::int64_t layer);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_MODEL_DENSE_ROLES_H_
