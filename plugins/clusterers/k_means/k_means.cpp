// k-means: clusters of any size around their means.
//
//   min Σ_p ‖x_p − c_{l(p)}‖²        assignment to the nearest centre and means in turn (Lloyd), so inertia never rises
//
// Starts by k-means++ with several trials a centre; the best of several starts counts. A cluster that loses all its points gets
// the point that is farthest from its centre, so none is ever empty. Lloyd: "Least squares quantization in PCM", IEEE Trans. Inf.
// Theory 1982; Arthur, Vassilvitskii: k-means++, SODA 2007.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "moiety/clusterer.h"

namespace {

using namespace moiety;

/// k-means++: each further centre is a point drawn by its squared distance to the nearest one; of a few draws the one that helps
/// most. points [n, d] double → [k, d].
at::Tensor first_centres(const at::Tensor& points, std::int64_t k, Random& random) {
  const std::int64_t n = points.size(0), trials = 2 + static_cast<std::int64_t>(std::log(static_cast<double>(k)));
  std::vector<at::Tensor> chosen{points[random.below(n)]};
  at::Tensor nearest = (points - chosen[0]).square().sum(1);
  while (static_cast<std::int64_t>(chosen.size()) < k) {
    const at::Tensor sums = nearest.cumsum(0).contiguous();
    const double *const begin = sums.data_ptr<double>(), *const end = begin + n, total = end[-1];
    double best = std::numeric_limits<double>::infinity();
    at::Tensor best_centre, best_nearest;
    for (std::int64_t trial = 0; trial < trials; ++trial) {
      // With total 0 every point is a copy of a centre.
      const std::int64_t p =
          total > 0 ? std::min(std::upper_bound(begin, end, random.uniform() * total) - begin, n - 1) : random.below(n);
      const at::Tensor with = nearest.minimum((points - points[p]).square().sum(1));
      const double inertia = with.sum().item().toDouble();
      if (inertia < best) best = inertia, best_centre = points[p], best_nearest = with;
    }
    chosen.push_back(best_centre);
    nearest = best_nearest;
  }
  return at::stack(chosen);
}

/// Gives each empty cluster the point farthest from its centre, of those that are not alone.
void fill_empty(const at::Tensor& points, const at::Tensor& centres, at::Tensor& labels) {
  const std::int64_t k = centres.size(0);
  const at::Tensor sizes = labels.bincount({}, k);
  auto* const size = sizes.data_ptr<std::int64_t>();
  if (std::find(size, size + k, 0) == size + k) return;
  at::Tensor distances = (points - centres.index_select(0, labels)).square().sum(1).contiguous();
  auto* const distance = distances.data_ptr<double>();
  auto* const label = labels.data_ptr<std::int64_t>();
  for (std::int64_t c = 0; c < k; ++c) {
    if (size[c] != 0) continue;
    std::int64_t farthest = -1;
    for (std::int64_t p = 0; p < points.size(0); ++p)
      if (size[label[p]] > 1 && (farthest < 0 || distance[p] > distance[farthest])) farthest = p;
    --size[label[farthest]];
    label[farthest] = c;
    distance[farthest] = 0;
    ++size[c];
  }
}

class KMeans final : public Clusterer {
 public:
  struct Options {
    std::int64_t count, restarts, max_iterations;
    double tolerance;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::count>("count", 0, "clusters, where nobody else says how many; 0: somebody else must")
          .range(0, 1000000)
          .in("clusters"),
      param<&Options::restarts>("restarts", 4, "starts; the one with the least inertia counts").range(1, 1000),
      param<&Options::max_iterations>("max_iterations", 300, "rounds of assignment and means a start at most")
          .at_least(1)
          .in("iterations"),
      param<&Options::tolerance>("tolerance", 1e-4, "ends when the centres' squared movement is below this part of the variance")
          .at_least(0)};

  explicit KMeans(const Options& options) : options_(options) {}

  Abilities abilities() const override { return {/*fixed_count=*/true, /*equal_sizes=*/false, /*any_count=*/options_.count > 0}; }

  Clusters fit(const at::Tensor& given, std::int64_t count, Random random) override {
    const at::NoGradGuard no_gradient;
    const std::int64_t k = count > 0 ? count : options_.count;
    if (given.dim() != 2) throw std::invalid_argument("points must be a matrix");
    if (k < 1) throw std::invalid_argument("the number of clusters must be told, by `count`");
    if (given.size(0) < k)
      throw std::invalid_argument("cannot make " + std::to_string(k) + " clusters of " + std::to_string(given.size(0)) +
                                  " points");
    if (!given.isfinite().all().item().toBool()) throw std::invalid_argument("the points hold values that are not finite");
    // Around their mean nothing is lost when large squares are subtracted.
    const at::Tensor doubles = given.to(at::kDouble), mean = doubles.mean(0, /*keepdim=*/true), points = doubles - mean;
    Clusters best;
    for (std::int64_t start = 0; start < options_.restarts; ++start) {
      Clusters one = fit_once(points, k, random.fork(static_cast<std::uint64_t>(start)));
      if (start == 0 || one.inertia < best.inertia) best = std::move(one);
    }
    const at::Tensor distances = (points - best.centres.index_select(0, best.labels)).norm(2, {1});
    const at::Tensor sizes = best.labels.bincount({}, k).to(at::kDouble);
    best.radii = (at::zeros({k}, at::kDouble).index_add_(0, best.labels, distances) / sizes).to(given.scalar_type());
    best.centres = (best.centres + mean).to(given.scalar_type());
    return best;
  }

 private:
  Clusters fit_once(const at::Tensor& points, std::int64_t k, Random random) const {
    Clusters fit;
    fit.centres = first_centres(points, k, random);
    const double enough = options_.tolerance * points.square().mean().item().toDouble();
    for (bool settled = false; !settled && fit.iterations < options_.max_iterations; ++fit.iterations) {
      at::Tensor labels = nearest_centre(points, fit.centres);
      fill_empty(points, fit.centres, labels);
      settled = fit.labels.defined() && at::equal(labels, fit.labels);
      fit.labels = labels;
      const at::Tensor sums = at::zeros({k, points.size(1)}, at::kDouble).index_add_(0, labels, points);
      const at::Tensor centres = sums / labels.bincount({}, k).to(at::kDouble).unsqueeze(1);
      settled = settled || (centres - fit.centres).square().sum().item().toDouble() <= enough;
      fit.centres = centres;
    }
    fit.inertia = (points - fit.centres.index_select(0, fit.labels)).square().sum().item().toDouble();
    return fit;
  }

  Options options_;
};

}  // namespace

MOIETY_PLUGIN("k-means", "1.0.0", "k-means",
              component<KMeans>("k-means", 1, "Clusters around their means, of any size",
                                "Lloyd 1982; Arthur, Vassilvitskii, k-means++, SODA 2007"));
