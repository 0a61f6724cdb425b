// A random partition into clusters of equal size (to within one): the control that tells what clustering adds.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <numeric>
#include <stdexcept>

#include "moiety/clusterer.h"

namespace {

using namespace moiety;

class RandomPartition final : public Clusterer {
 public:
  Abilities abilities() const override { return {/*fixed_count=*/true, /*equal_sizes=*/true, /*any_count=*/false}; }

  Clusters fit(const at::Tensor& points, std::int64_t count, Random random) override {
    if (points.dim() != 2) throw std::invalid_argument("points must be a matrix");
    const std::int64_t n = points.size(0);
    if (count < 1 || n < count) {
      throw std::invalid_argument("cannot make " + std::to_string(count) + " clusters of " + std::to_string(n) + " points");
    }
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    random.shuffle(order);
    Clusters clusters;
    clusters.labels = at::empty({n}, at::kLong);
    // Position i of the shuffled order goes to cluster ⌊i·k/n⌋: sizes differ by at most one.
    for (std::int64_t i = 0; i < n; ++i)
      clusters.labels.data_ptr<std::int64_t>()[order[static_cast<std::size_t>(i)]] = i * count / n;
    const at::Tensor doubles = points.detach().to(at::kDouble);
    const at::Tensor ones = at::zeros({n}, at::kDouble).fill_(1);
    const at::Tensor sizes = at::zeros({count}, at::kDouble).index_add_(0, clusters.labels, ones);
    const at::Tensor centres =
        at::zeros({count, points.size(1)}, at::kDouble).index_add_(0, clusters.labels, doubles) / sizes.unsqueeze(1);
    clusters.inertia = (doubles - centres.index_select(0, clusters.labels)).square().sum().item<double>();
    clusters.centres = centres.to(points.scalar_type());
    clusters.iterations = 1;
    return clusters;
  }
};

}  // namespace

MOIETY_PLUGIN("random-clusters", "1.0.0", "Random partition",
              component<RandomPartition>("random", 1, "A random partition into equal sizes"));
