// A clusterer divides points into groups.
#ifndef MOIETY_CLUSTERER_H_
#define MOIETY_CLUSTERER_H_

#include "moiety/component.h"
#include "moiety/plugin.h"
#include "moiety/random.h"
#include "moiety/weights.h"

namespace moiety {

struct Clusters {
  at::Tensor labels;   ///< [n] int64, from 0; −1: noise
  at::Tensor centres;  ///< [count, d] of the points' dtype; undefined when there are none
  at::Tensor radii;    ///< [count]: mean distance of the members to their centre; may be undefined
  double inertia = 0;  ///< Σ squared distance of a point to its centre
  std::int64_t iterations = 0;
};

struct Abilities {
  bool fixed_count = false;  ///< can be told the number of clusters
  bool equal_sizes = false;  ///< all clusters get the same number of points where n divides
  bool any_count = false;    ///< can find the number itself
};

/// [n] int64: the nearest centre of each point, the first of equally near ones.
inline at::Tensor nearest_centre(const at::Tensor& points, const at::Tensor& centres) {
  return points.matmul(centres.t()).mul(-2).add(centres.square().sum(1)).argmin(1);
}

class Clusterer : public Component {
 public:
  static constexpr const char* kind = "clusterer";
  virtual Abilities abilities() const = 0;
  /// points [n, d] float → labels. `count` 0: find it. Deterministic for a stream.
  virtual Clusters fit(const at::Tensor& points, std::int64_t count, Random) = 0;
  /// Labels of new points.
  virtual at::Tensor assign(const at::Tensor& points, const Clusters& clusters) const {
    return nearest_centre(points, clusters.centres);
  }
};

}  // namespace moiety

#endif  // MOIETY_CLUSTERER_H_
