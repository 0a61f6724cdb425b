// CSE's router: each sequence runs the expert of its nearest cluster centre.
//
//   v  = mean of h over the tokens that are looked at, v' = v R        R [d, d'] fixed, entries N(0, 1/d')
//   once, on recorded inputs: a clusterer gives centres c_j and radii r_j of the points v'; clusters are the experts
//   i  = argmin_j ‖v' − c_j‖ / r_j                                     weight exactly 1, no gradient
//   after every training step, sequence by sequence: c_i ← α c_i + (1 − α) v'
//
// view = window looks at the whole window (as published; in a causal model later tokens then choose the expert), prefix at its
// first tokens only: measure such a model with the loss of the tokens after them. level = token is the control: each token by
// itself. "Once Read is Enough: Domain-specific Pretraining-free Language Models with Cluster-guided Sparse Experts", NeurIPS
// 2024, sec. 3.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cdist.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "moiety/clusterer.h"
#include "moiety/router.h"

namespace {

using namespace moiety;

MOIETY_CHOICE(View, window, prefix);
MOIETY_CHOICE(Level, sequence, token);

class NearestCentre final : public Router {
 public:
  struct Options {
    std::shared_ptr<Clusterer> clusterer;
    View view;
    std::int64_t prefix;
    Level level;
    double momentum;
    bool radii;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::clusterer>("clusterer", "dbscan", "finds the clusters; must find their number itself"),
      param<&Options::view>("view", View::window, "what of a window is looked at: all of it, or its first tokens"),
      param<&Options::prefix>("prefix", 32, "how many tokens view = prefix looks at").at_least(1).in("tokens"),
      param<&Options::level>("level", Level::sequence, "who has an expert: a sequence with all its tokens, or each token"),
      param<&Options::momentum>("momentum", 0.99, "how much of a centre is kept when a sequence joins it; 1: centres rest")
          .range(0, 1),
      param<&Options::radii>("radii", true, "distances are divided by the radius of the cluster")};

  explicit NearestCentre(Options options) : options_(std::move(options)) {}

  Needs needs() const override { return {/*activations=*/true}; }
  void check(const Facts&, Problems& problems) const override {
    if (!options_.clusterer->abilities().any_count)
      problems.add("clusterer", "must find the number of clusters itself, which this one cannot");
  }
  RouterCost cost(const Site& site) const override {
    // Before the data was seen: as without a projection, and with one expert.
    const std::int64_t projected = projection_.defined() ? projection_.size(1) : site.width;
    return {1, static_cast<double>(projected * (site.width + std::max<std::int64_t>(1, site.experts)))};
  }
  Rows rows() const override { return options_.level == Level::sequence ? Rows::sequence : Rows::token; }
  bool finds_experts() const override { return true; }

  std::int64_t find_experts(const Site& site, const Activations& activations, Random random) override {
    const at::NoGradGuard no_gradient;
    const std::int64_t d = site.width, projected = activations.dimensions() > 0 ? activations.dimensions() : d;
    projection_ = at::zeros({d, projected}, at::kFloat);
    auto* entry = projection_.data_ptr<float>();
    Random draws = random.fork("projection");
    const double deviation = 1.0 / std::sqrt(static_cast<double>(projected));
    for (std::int64_t i = 0; i < d * projected; ++i)
      entry[i] = activations.dimensions() > 0 ? static_cast<float>(deviation * draws.normal())
                                              : (i / projected == i % projected ? 1.0F : 0.0F);
    const std::int64_t windows = activations.windows();
    at::Tensor points = at::empty({windows, projected}, at::kFloat);
    constexpr std::int64_t batch = 64;
    for (std::int64_t first = 0; first < windows; first += batch) {
      const std::int64_t count = std::min(batch, windows - first);
      points.narrow(0, first, count).copy_(sequence_points(activations.read(first, first + count), at::Tensor()));
    }
    const Clusters found = options_.clusterer->fit(points, 0, random.fork("clusterer"));
    if (!found.centres.defined() || !found.radii.defined()) throw std::runtime_error("the clusterer gives no centres and radii");
    centres_ = found.centres.to(at::kDouble);
    radii_ = found.radii.to(at::kDouble);
    return centres_.size(0);
  }

  void bind(const Site& site, Parameters&, const Bank&) override {
    if (!centres_.defined()) centres_ = at::zeros({site.experts, 1}, at::kDouble);  // only counted: no data was seen
    if (centres_.size(0) != site.experts) throw std::invalid_argument("as many experts as clusters are needed");
  }

  Routing route(const RouterInput& input) const override {
    const at::NoGradGuard no_gradient;
    const at::Tensor points = options_.level == Level::sequence ? sequence_points(input.hidden, input.mask)
                                                                : input.hidden.flatten(0, 1).to(at::kFloat).matmul(projection_);
    at::Tensor distances = at::cdist(points.to(at::kDouble), centres_);
    if (options_.radii) distances = distances / radii_.clamp_min(1e-6);
    Routing routing;
    routing.experts = distances.argmin(1, /*keepdim=*/true);
    if (options_.momentum < 1) routing.observed = points;
    return routing;
  }

  void after_step(const Observed& seen) override {
    if (!seen.observed.defined()) return;
    const at::Tensor points = seen.observed.to(at::kDouble).contiguous(), experts = seen.experts.contiguous();
    centres_ = centres_.clone();
    const std::int64_t width = centres_.size(1);
    for (std::int64_t i = 0; i < points.size(0); ++i) {
      double* centre = centres_.data_ptr<double>() + experts.data_ptr<std::int64_t>()[i] * width;
      const double* point = points.data_ptr<double>() + i * width;
      for (std::int64_t j = 0; j < width; ++j) centre[j] = options_.momentum * centre[j] + (1 - options_.momentum) * point[j];
    }
  }

  void state(Archive& archive) override {
    archive("projection", projection_);
    archive("centres", centres_);
    archive("radii", radii_);
  }

 private:
  /// hidden [B, L, d] → [B, d'].
  at::Tensor sequence_points(const at::Tensor& hidden, const at::Tensor& mask) const {
    const std::int64_t length = options_.view == View::prefix ? std::min(options_.prefix, hidden.size(1)) : hidden.size(1);
    const at::Tensor seen = hidden.detach().narrow(1, 0, length).to(at::kFloat);
    if (!mask.defined()) return seen.mean(1).matmul(projection_);
    const at::Tensor real = mask.narrow(1, 0, length).to(at::kFloat).unsqueeze(2);
    return ((seen * real).sum(1) / real.sum(1).clamp_min(1)).matmul(projection_);
  }

  Options options_;
  at::Tensor projection_;       // [d, d']
  at::Tensor centres_, radii_;  // [k, d'], [k] double
};

}  // namespace

MOIETY_PLUGIN("nearest-centre", "1.0.0", "Routing by the nearest cluster centre",
              component<NearestCentre>("nearest-centre", 1, "A sequence runs the expert of its nearest cluster",
                                       "Cluster-guided Sparse Experts, NeurIPS 2024, section 3"));
