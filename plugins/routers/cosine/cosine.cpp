// Cosine scores of the experts, for routers that choose by scores (top-k).
//
//   q = P x + c;   l_i = τ · (q/‖q‖) · (e_i/‖e_i‖)        P [D, d], e_i [D]; τ = exp(scale), learned, 2 at first, at most 100
//
// Bounded scores: no expert wins by the length of its row. Li et al.: "Sparse Mixture-of-Experts are Domain Generalizable
// Learners" (GMoE), ICLR 2023, section 4 and its code.
#include <ATen/ATen.h>

#include <cmath>

#include "moiety/router.h"

namespace {

using namespace moiety;

at::Tensor unit_rows(const at::Tensor& rows) { return rows / rows.norm(2, {1}, /*keepdim=*/true).clamp_min(1e-12); }

class Cosine final : public Router {
 public:
  struct Options {
    std::int64_t dimensions;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::dimensions>("dimensions", 256, "to which a token is projected before it is compared")
          .range(1, 100000)
          .in("numbers")};

  explicit Cosine(const Options& options) : options_(options) {}

  RouterCost cost(const Site& site) const override {
    return {static_cast<double>(site.experts), static_cast<double>(options_.dimensions * (site.width + site.experts))};
  }
  void bind(const Site& site, Parameters& to, const Bank&) override {
    const std::int64_t n = site.experts, d = site.width, projected = options_.dimensions;
    projection_ = to.add(spec("projection", {projected, d}).normal(1 / std::sqrt(3.0 * static_cast<double>(d))));
    bias_ = to.add(spec("bias", {projected}).without_decay());
    experts_ = to.add(spec("experts", {n, projected}).normal(0.01).of_experts());
    scale_ = to.add(spec("scale", {1}).filled(std::log(2.0)).without_decay());
  }
  Routing route(const RouterInput& input) const override {
    const at::Tensor x = input.hidden.flatten(0, 1).to(projection_->scalar_type());
    const at::Tensor queries = unit_rows(x.matmul(projection_->t()) + *bias_);
    Routing routing;
    routing.weights = queries.matmul(unit_rows(*experts_).t()) * scale_->clamp_max(std::log(100.0)).exp();
    return routing;
  }

 private:
  Options options_;
  Weight projection_, bias_, experts_, scale_;
};

}  // namespace

MOIETY_PLUGIN("cosine", "1.0.0", "Cosine scores of experts",
              component<Cosine>("cosine", 1, "Scores for top-k: cosine between a projected token and each expert",
                                "Li et al., GMoE, ICLR 2023"));
