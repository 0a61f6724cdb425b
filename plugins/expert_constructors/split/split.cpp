// Splits a dense feed-forward into experts of equal size, without changing what all of them together compute.
//
//   neurons are clustered by their keys (rows of the first matrix, each divided by its length); expert i owns
//   in[E_i], in_bias[E_i] and out[:, E_i] of its neurons E_i in ascending order; the output bias stays one, shared by all.
//
// Zhang et al.: "MoEfication", Findings of ACL 2022, section 3.2; Qiu et al.: EMoE, NAACL 2024.
#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "moiety/expert_constructor.h"

namespace {

using namespace moiety;

MOIETY_CHOICE(Feature, normalised_keys, keys);

class Split final : public ExpertConstructor {
 public:
  struct Options {
    std::int64_t count;
    std::shared_ptr<Clusterer> clusterer;
    Feature feature;
  };
  static constexpr Parameter parameters[] = {
      required<&Options::count>("count", "experts; must divide the neurons of the feed-forward").at_least(1).in("experts"),
      param<&Options::clusterer>("clusterer", "balanced-kmeans", "which neurons go together; must give clusters of equal size"),
      param<&Options::feature>("feature", Feature::normalised_keys,
                               "what a neuron is to the clusterer: its key as direction, or as it is")};

  explicit Split(Options options) : options_(std::move(options)) {}

  void check(const Facts& facts, Problems& problems) const override {
    if (facts.site != nullptr && facts.site->inner > 0 && facts.site->inner % options_.count != 0) {
      problems.add("count", std::to_string(facts.site->inner) + " neurons cannot be split into " +
                                std::to_string(options_.count) + " experts of equal size" + near_divisors(facts.site->inner));
    }
    if (facts.sources > 1) problems.add("", "splits one model, but " + std::to_string(facts.sources) + " are read");
    const Abilities abilities = options_.clusterer->abilities();
    if (!abilities.fixed_count || !abilities.equal_sizes) {
      problems.add("clusterer", "cannot be told to make a given number of clusters of equal size, which split needs");
    }
  }
  std::int64_t count(const Facts&) const override { return options_.count; }

  void plan(const Sources& sources, const Site& site, const Activations*, Random random) override {
    const at::Tensor keys = sources.at(0).at("in").detach().to(at::kFloat);
    const std::int64_t neurons = keys.size(0), size = neurons / options_.count;
    if (neurons != site.inner || size * options_.count != neurons)
      throw std::invalid_argument("count does not divide the neurons");
    at::Tensor points = keys;
    if (options_.feature == Feature::normalised_keys) points = keys / keys.norm(2, {1}, /*keepdim=*/true).clamp_min(1e-12);
    const at::Tensor labels = options_.clusterer->fit(points, options_.count, random).labels.to(at::kLong).contiguous();
    if (labels.dim() != 1 || labels.size(0) != neurons) throw std::runtime_error("the clusterer did not give one label a neuron");
    labels_.assign(labels.data_ptr<std::int64_t>(), labels.data_ptr<std::int64_t>() + neurons);
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(options_.count), 0);
    for (const std::int64_t label : labels_) {
      if (label < 0 || label >= options_.count || ++sizes[static_cast<std::size_t>(label)] > size) {
        throw std::runtime_error("the clusterer did not give clusters of equal size");
      }
    }
  }

  Layout bind(const Site& site, Parameters& to) override {
    const std::int64_t n = options_.count, s = site.inner / options_.count, d = site.width;
    to.add(spec("in", {n, s, d}).of_experts());
    to.add(spec("in_bias", {n, s}).of_experts().without_decay());
    to.add(spec("out", {n, d, s}).of_experts());
    to.add(spec("out_bias", {1, d}).without_decay());
    return {};
  }

  TensorMap expand(const Sources& sources, const Site& site) const override {
    const TensorMap& dense = sources.at(0);
    const std::int64_t n = options_.count, s = site.inner / options_.count, d = site.width;
    if (static_cast<std::int64_t>(labels_.size()) != site.inner) throw std::logic_error("expand before plan");
    std::vector<std::int64_t> neurons(labels_.size());
    std::iota(neurons.begin(), neurons.end(), 0);
    std::stable_sort(neurons.begin(), neurons.end(), [&](std::int64_t a, std::int64_t b) { return label(a) < label(b); });
    const at::Tensor order = at::tensor(neurons, at::kLong);
    const auto zeros = [&](std::int64_t size) { return at::zeros({size}, dense.at("in").options()); };
    const at::Tensor in_bias = dense.count("in_bias") != 0 ? dense.at("in_bias").detach() : zeros(site.inner);
    const at::Tensor out_bias = dense.count("out_bias") != 0 ? dense.at("out_bias").detach() : zeros(d);
    return {{"in", dense.at("in").detach().index_select(0, order).view({n, s, d})},
            {"in_bias", in_bias.index_select(0, order).view({n, s})},
            {"out", dense.at("out").detach().index_select(1, order).view({d, n, s}).permute({1, 0, 2}).contiguous()},
            {"out_bias", out_bias.clone().view({1, d})}};
  }

  void state(Archive& archive) override { archive("labels", labels_); }

 private:
  std::int64_t label(std::int64_t neuron) const { return labels_[static_cast<std::size_t>(neuron)]; }
  /// "; 8 and 16 can": the divisors on either side of the count.
  std::string near_divisors(std::int64_t neurons) const {
    std::int64_t below = options_.count, above = options_.count;
    while (neurons % below != 0) --below;
    while (above <= neurons && neurons % above != 0) ++above;
    if (above > neurons) return "; " + std::to_string(below) + " would do";
    return "; " + std::to_string(below) + " or " + std::to_string(above) + " would do";
  }

  Options options_;
  std::vector<std::int64_t> labels_;  ///< the expert of each neuron
};

}  // namespace

MOIETY_PLUGIN("split", "1.0.0", "Experts from the neurons of one dense feed-forward",
              component<Split>("split", 1, "Splits a feed-forward into experts by clustering its keys",
                               "Zhang et al., MoEfication, Findings of ACL 2022; Qiu et al., EMoE, NAACL 2024"));
