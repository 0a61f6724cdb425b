// The tensors of a dense layer by role: what a constructor reads of it, and what a bank has of each expert. Torch-free.
#ifndef MOIETY_ROLES_H_
#define MOIETY_ROLES_H_

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "moiety/site.h"

namespace moiety {

struct Role {
  std::string name;
  std::vector<std::int64_t> shape;
  double deviation;  ///< of the start in a fresh model, GPT-2's: normal(0.02), divided by √(2 · layers) on the way back

  bool is_bias() const { return shape.size() == 1; }
};

/// Of a feed-forward `in` [F, d], `up` [F, d] if it is gated, `out` [d, F]; of attention `q`, `o` [d, d], `k`, `v` [kv_width, d];
/// and if there are biases the same names with `_bias`, a number for each row. In the order in which they are declared. Of a
/// whole model none: the engine copies it.
inline std::vector<Role> layer_roles(const Site& site) {
  if (site.place == Place::whole) return {};
  const std::int64_t d = site.width, f = site.inner, kv = site.kv_width();
  const double sd = 0.02, back = sd / std::sqrt(2.0 * static_cast<double>(std::max<std::int64_t>(1, site.layers)));
  std::vector<Role> matrices;
  if (site.place == Place::attention)
    matrices = {{"q", {d, d}, sd}, {"k", {kv, d}, sd}, {"v", {kv, d}, sd}, {"o", {d, d}, back}};
  else if (site.gated())
    matrices = {{"in", {f, d}, sd}, {"up", {f, d}, sd}, {"out", {d, f}, back}};
  else
    matrices = {{"in", {f, d}, sd}, {"out", {d, f}, back}};
  std::vector<Role> roles;
  for (Role& matrix : matrices) {
    roles.push_back(matrix);
    if (site.biases) roles.push_back({matrix.name + "_bias", {matrix.shape[0]}, 0});
  }
  return roles;
}

}  // namespace moiety

#endif  // MOIETY_ROLES_H_
