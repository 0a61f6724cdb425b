// Density-based clusters of any number and shape; points in thin regions are noise.
//
//   core point     at least min_points points (itself too) within the radius
//   cluster        core points linked by steps within the radius, numbered by their first point
//   border point   not core, but within the radius of a core point: of the cluster of its nearest one
//   noise          the rest, label −1; it has no part in centres and radii
//
// Distances are in units of the mean length of the centred points. radius = "knee": where the sorted distances to the
// min_points-th neighbour turn up most sharply (farthest from the chord). If that gives fewer clusters than at_least or more than
// at_most, radii 10 % apart below and above it are tried, the nearest ones first. Ester et al.: "A density-based algorithm for
// discovering clusters", KDD 1996.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cdist.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <queue>
#include <stdexcept>

#include "moiety/clusterer.h"

namespace {

using namespace moiety;

constexpr std::int64_t most_points = 20000;  // the distances between all of them are kept

/// Distances [n, n] of the points, and which are near.
class Neighbours {
 public:
  explicit Neighbours(const at::Tensor& points)
      : distances_(at::cdist(points, points).contiguous()), values_(distances_.data_ptr<float>()), n_(points.size(0)) {}
  std::int64_t count() const { return n_; }
  float distance(std::int64_t a, std::int64_t b) const { return values_[a * n_ + b]; }

  /// Sorted distances of the points to their k-th neighbour, themselves being the first.
  std::vector<float> reach(std::int64_t k) const {
    std::vector<float> reach(static_cast<std::size_t>(n_)), row(static_cast<std::size_t>(n_));
    const auto place = static_cast<std::ptrdiff_t>(std::min(k, n_) - 1);
    for (std::int64_t i = 0; i < n_; ++i) {
      const float* from = values_ + i * n_;
      std::copy_n(from, n_, row.begin());
      std::nth_element(row.begin(), row.begin() + place, row.end());
      reach[static_cast<std::size_t>(i)] = row[static_cast<std::size_t>(place)];
    }
    std::sort(reach.begin(), reach.end());
    return reach;
  }

 private:
  at::Tensor distances_;
  const float* values_;
  std::int64_t n_;
};

/// The value of the sorted curve that lies farthest below the chord from its first to its last point.
double knee(const std::vector<float>& curve) {
  const auto last = static_cast<double>(curve.size() - 1), first = static_cast<double>(curve.front()),
             rise = static_cast<double>(curve.back()) - first;
  std::size_t best = 0;
  double farthest = -1;
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const double below = first + rise * static_cast<double>(i) / std::max(1.0, last) - static_cast<double>(curve[i]);
    if (below > farthest) {
      farthest = below;
      best = i;
    }
  }
  return static_cast<double>(curve[best]);
}

struct Labels {
  std::vector<std::int64_t> of;
  std::int64_t count = 0;
};

Labels clusters_within(const Neighbours& near, float radius, std::int64_t min_points) {
  const std::int64_t n = near.count();
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  std::vector<char> core(at(n));
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t within = 0;
    for (std::int64_t j = 0; j < n; ++j) within += near.distance(i, j) <= radius ? 1 : 0;
    core[at(i)] = within >= min_points ? 1 : 0;
  }
  Labels labels{std::vector<std::int64_t>(at(n), -1), 0};
  for (std::int64_t seed = 0; seed < n; ++seed) {
    if (core[at(seed)] == 0 || labels.of[at(seed)] >= 0) continue;
    std::queue<std::int64_t> open;
    labels.of[at(seed)] = labels.count;
    for (open.push(seed); !open.empty(); open.pop()) {
      const std::int64_t i = open.front();
      for (std::int64_t j = 0; j < n; ++j) {
        if (core[at(j)] == 0 || labels.of[at(j)] >= 0 || near.distance(i, j) > radius) continue;
        labels.of[at(j)] = labels.count;
        open.push(j);
      }
    }
    ++labels.count;
  }
  const std::vector<std::int64_t> of_core = labels.of;
  for (std::int64_t i = 0; i < n; ++i) {
    if (core[at(i)] != 0) continue;
    float nearest = radius;
    for (std::int64_t j = 0; j < n; ++j) {
      if (core[at(j)] == 0 || near.distance(i, j) > nearest || (near.distance(i, j) == nearest && labels.of[at(i)] >= 0))
        continue;
      nearest = near.distance(i, j);
      labels.of[at(i)] = of_core[at(j)];
    }
  }
  return labels;
}

class Dbscan final : public Clusterer {
 public:
  struct Options {
    std::string radius;
    std::int64_t min_points, at_least, at_most;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::radius>("radius", "knee", "how near is near, in mean lengths of the centred points: a number, or knee"),
      param<&Options::min_points>("min_points", 0, "points within the radius that make a core point; 0: n/256, at least 8")
          .at_least(0)
          .in("points"),
      param<&Options::at_least>("at_least", 2, "clusters; with fewer, other radii near the knee are tried").at_least(1),
      param<&Options::at_most>("at_most", 16, "clusters; with more, other radii near the knee are tried").at_least(1)};

  explicit Dbscan(Options options) : options_(std::move(options)) {}

  void check(const Facts&, Problems& problems) const override {
    if (options_.radius != "knee" && !(given_radius() > 0))
      problems.add("radius", "`" + options_.radius + "` is neither knee nor a number above 0");
    if (options_.at_least > options_.at_most) problems.add("at_least", "is more than at_most");
  }
  Abilities abilities() const override { return {/*fixed_count=*/false, /*equal_sizes=*/false, /*any_count=*/true}; }

  Clusters fit(const at::Tensor& points, std::int64_t count, Random) override {
    if (points.dim() != 2 || points.size(0) < 1) throw std::invalid_argument("points must be a matrix with at least one row");
    if (count != 0) throw std::invalid_argument("DBSCAN finds the number of clusters itself");
    const std::int64_t n = points.size(0);
    if (n > most_points)
      throw std::invalid_argument(std::to_string(n) + " points are more than " + std::to_string(most_points) +
                                  ", the distances between which fit into memory");
    at::Tensor centred = points.detach().to(at::kDouble);
    centred = centred - centred.mean(0);
    const double length = centred.norm(2, {1}).mean().item().toDouble();
    const Neighbours near((length > 0 ? centred / length : centred).to(at::kFloat));
    const std::int64_t min_points = options_.min_points > 0 ? options_.min_points : std::max<std::int64_t>(8, n / 256);
    const Labels labels = options_.radius == "knee" ? near_the_knee(near, min_points)
                                                    : clusters_within(near, static_cast<float>(given_radius()), min_points);
    if (labels.count == 0) throw std::runtime_error("all points are noise: a larger radius or a smaller min_points is needed");
    return describe(points, labels);
  }

 private:
  double given_radius() const {
    double value = 0;
    const char* end = options_.radius.data() + options_.radius.size();
    const auto read = std::from_chars(options_.radius.data(), end, value);
    return read.ec == std::errc() && read.ptr == end && std::isfinite(value) ? value : 0;
  }

  Labels near_the_knee(const Neighbours& near, std::int64_t min_points) const {
    const double start = knee(near.reach(min_points));
    std::string tried;
    for (int step = 0; step < 25; ++step) {
      for (const double radius : {start * std::pow(1.1, step), start * std::pow(1.1, -step)}) {
        Labels labels = clusters_within(near, static_cast<float>(radius), min_points);
        if (labels.count >= options_.at_least && labels.count <= options_.at_most) return labels;
        tried += (tried.empty() ? "" : ", ") + std::to_string(labels.count) + " at " + std::to_string(radius);
        if (step == 0) break;
      }
    }
    throw std::runtime_error("no radius near the knee gives " + std::to_string(options_.at_least) + " to " +
                             std::to_string(options_.at_most) + " clusters; found: " + tried);
  }

  static Clusters describe(const at::Tensor& points, const Labels& labels) {
    const std::int64_t n = points.size(0), k = labels.count;
    Clusters clusters;
    clusters.labels = at::empty({n}, at::kLong);
    std::copy(labels.of.begin(), labels.of.end(), clusters.labels.data_ptr<std::int64_t>());
    const at::Tensor members = clusters.labels.ge(0).nonzero().flatten();
    const at::Tensor own = clusters.labels.index_select(0, members);
    const at::Tensor values = points.detach().to(at::kDouble).index_select(0, members);
    const at::Tensor sizes = own.bincount({}, k).to(at::kDouble);
    const at::Tensor centres = at::zeros({k, points.size(1)}, at::kDouble).index_add_(0, own, values) / sizes.unsqueeze(1);
    const at::Tensor distances = (values - centres.index_select(0, own)).norm(2, {1});
    clusters.centres = centres.to(points.scalar_type());
    clusters.radii = (at::zeros({k}, at::kDouble).index_add_(0, own, distances) / sizes).to(points.scalar_type());
    clusters.inertia = distances.square().sum().item().toDouble();
    clusters.iterations = 1;
    return clusters;
  }

  Options options_;
};

}  // namespace

MOIETY_PLUGIN("dbscan", "1.0.0", "Density-based clusters",
              component<Dbscan>("dbscan", 1, "Clusters of any number by density; thin regions are noise",
                                "Ester et al., KDD 1996"));
