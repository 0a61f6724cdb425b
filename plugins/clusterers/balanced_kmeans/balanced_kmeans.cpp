// k-means whose clusters all have the same size (to within one where the number of points does not divide).
//
//   min Σ_p ‖x_p − c_{l(p)}‖²  s.t.  ⌊n/k⌋ ≤ |{p : l(p) = i}| ≤ ⌈n/k⌉
//
// Lloyd's two steps, the assignment being exact under the sizes (assignment.h), so inertia never rises. Starts by k-means++ with
// several trials a centre; the best of several starts counts. Bradley, Bennett, Demiriz: "Constrained k-means clustering",
// MSR-TR-2000-65; Arthur, Vassilvitskii: k-means++, SODA 2007.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "assignment.h"
#include "moiety/clusterer.h"

namespace {

using namespace moiety;

/// k-means++: each further centre is a point drawn by its squared distance to the nearest one; of a few draws the one that helps
/// most. points [n, d] double → [k, d].
at::Tensor first_centres(const at::Tensor& points, std::int64_t k, Random& random) {
  const std::int64_t n = points.size(0), trials = 2 + static_cast<std::int64_t>(std::log(static_cast<double>(k)));
  const at::Tensor norms = points.square().sum(1, /*keepdim=*/true);
  at::Tensor chosen = at::empty({k}, at::kLong), candidates = at::empty({trials}, at::kLong);
  at::Tensor nearest = at::empty({n, 1}, at::kDouble).fill_(std::numeric_limits<double>::infinity());
  for (std::int64_t i = 0; i < k; ++i) {
    auto* const draws = candidates.data_ptr<std::int64_t>();
    const at::Tensor sums = nearest.cumsum(0).contiguous();
    const double* const begin = sums.data_ptr<double>();
    const bool drawn_by_distance = i > 0 && begin[n - 1] > 0;  // not when all points are copies of the centres
    for (std::int64_t trial = 0; trial < trials; ++trial) {
      draws[trial] = drawn_by_distance
                         ? std::min(std::upper_bound(begin, begin + n, random.uniform() * begin[n - 1]) - begin, n - 1)
                         : random.below(n);
    }
    const at::Tensor centres = points.index_select(0, candidates);
    const at::Tensor distances = (norms + centres.square().sum(1) - points.matmul(centres.t()) * 2).clamp_min(0);
    const at::Tensor with = distances.minimum(nearest);  // [n, trials]
    const std::int64_t best = with.sum(0).argmin().item().toLong();
    chosen.data_ptr<std::int64_t>()[i] = draws[best];
    nearest = with.narrow(1, best, 1).contiguous();
  }
  return points.index_select(0, chosen);
}

/// What differs between clusters of ‖x_p − c_c‖²: the part without ‖x_p‖², [n, k].
std::vector<double> costs_of(const at::Tensor& points, const at::Tensor& centres) {
  const at::Tensor costs = (centres.square().sum(1) - points.matmul(centres.t()) * 2).contiguous();
  return {costs.data_ptr<double>(), costs.data_ptr<double>() + costs.numel()};
}

at::Tensor means_of(const at::Tensor& points, const at::Tensor& labels, std::int64_t k) {
  const at::Tensor sums = at::zeros({k, points.size(1)}, at::kDouble).index_add_(0, labels, points);
  return sums / labels.bincount({}, k).to(at::kDouble).unsqueeze(1);
}

class BalancedKMeans final : public Clusterer {
 public:
  struct Options {
    std::int64_t restarts, max_iterations;
    double tolerance;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::restarts>("restarts", 4, "starts; the one with the least inertia counts").range(1, 1000),
      param<&Options::max_iterations>("max_iterations", 300, "rounds of assignment and means a start at most")
          .at_least(1)
          .in("iterations"),
      param<&Options::tolerance>("tolerance", 1e-4, "ends when the centres' squared movement is below this part of the variance")
          .at_least(0)};

  explicit BalancedKMeans(const Options& options) : options_(options) {}

  Abilities abilities() const override { return {/*fixed_count=*/true, /*equal_sizes=*/true, /*any_count=*/false}; }

  Clusters fit(const at::Tensor& given, std::int64_t count, Random random) override {
    const at::NoGradGuard no_grad;
    if (given.dim() != 2) throw std::invalid_argument("points must be a matrix");
    if (count < 1 || given.size(0) < count) {
      throw std::invalid_argument("cannot make " + std::to_string(count) + " clusters of " + std::to_string(given.size(0)) +
                                  " points");
    }
    if (!given.isfinite().all().item().toBool()) throw std::invalid_argument("the points hold values that are not finite");
    // Around their mean nothing is lost when large squares are subtracted.
    const at::Tensor doubles = given.to(at::kDouble), mean = doubles.mean(0, /*keepdim=*/true), points = doubles - mean;
    Clusters best;
    for (std::int64_t start = 0; start < options_.restarts; ++start) {
      Clusters one = fit_once(points, count, random.fork(static_cast<std::uint64_t>(start)));
      if (start == 0 || one.inertia < best.inertia) best = std::move(one);
    }
    best.centres = (best.centres + mean).to(given.scalar_type());
    return best;
  }

 private:
  Clusters fit_once(const at::Tensor& points, std::int64_t k, Random random) const {
    Clusters fit;
    fit.centres = first_centres(points, k, random);
    const double enough = options_.tolerance * points.square().mean().item().toDouble();
    std::vector<double> prices;
    std::vector<std::int32_t> labels;
    for (bool settled = false; !settled && fit.iterations < options_.max_iterations; ++fit.iterations) {
      std::vector<std::int32_t> next = balanced_assignment(costs_of(points, fit.centres), points.size(0), k, prices);
      settled = next == labels;
      labels = std::move(next);
      fit.labels = at::empty({points.size(0)}, at::kLong);
      std::copy(labels.begin(), labels.end(), fit.labels.data_ptr<std::int64_t>());
      const at::Tensor centres = means_of(points, fit.labels, k);
      settled = settled || (centres - fit.centres).square().sum().item().toDouble() <= enough;
      fit.centres = centres;
    }
    fit.inertia = (points - fit.centres.index_select(0, fit.labels)).square().sum().item().toDouble();
    return fit;
  }

  Options options_;
};

}  // namespace

MOIETY_PLUGIN("balanced-kmeans", "1.0.0", "k-means with equal sizes",
              component<BalancedKMeans>("balanced-kmeans", 1, "k-means whose clusters have equal sizes, each assignment exact",
                                        "Bradley et al., Constrained k-means clustering, MSR-TR-2000-65"));
