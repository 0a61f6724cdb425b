// Splits a dense feed-forward into experts of equal size, without changing what all of them together compute.
//
//   neurons are clustered; expert i owns in[E_i], (up[E_i],) their biases and out[:, E_i] of its neurons E_i in ascending order;
//   the output bias stays one, shared by all.
//
//   points = keys            a neuron is its key, the row of the first matrix, divided by its length
//   points = co-activations  a neuron is what it did, max(0, key·x + b) for each recorded token x, divided by its length and
//                            projected to calibrate.dimensions by a random matrix; neurons that fire together go together
//
// Zhang et al.: "MoEfication", Findings of ACL 2022, section 3.2 (there the graph of co-activations is cut by METIS); Qiu et al.:
// EMoE, NAACL 2024.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "../dense_layers.h"
#include "moiety/expert_constructor.h"

namespace {

using namespace moiety;

MOIETY_CHOICE(Points, keys, co_activations);
MOIETY_CHOICE(Feature, normalised_keys, keys);

/// [F, T], or projected [F, dimensions]: what each neuron did on the recorded tokens, as a direction; zero if it never fired.
at::Tensor co_activations(const TensorMap& dense, const Activations& activations, const Random& random) {
  const at::NoGradGuard no_gradient;
  const at::Tensor keys = dense.at("in").detach().to(at::kFloat);
  const std::int64_t neurons = keys.size(0), dimensions = activations.dimensions();
  at::Tensor squares = at::zeros({neurons}, at::kDouble), sums = at::zeros({neurons, dimensions}, at::kDouble);
  std::vector<at::Tensor> profiles;
  for (std::int64_t window = 0; window < activations.windows(); ++window) {
    at::Tensor did = activations.read(window, window + 1).flatten(0, 1).to(at::kFloat).matmul(keys.t());
    if (dense.count("in_bias") != 0) did = did + dense.at("in_bias").detach();
    did = did.relu().to(at::kDouble);
    squares += did.square().sum(0);
    if (dimensions == 0) {
      profiles.push_back(did.t());
      continue;
    }
    at::Tensor projection = at::empty({did.size(0), dimensions}, at::kDouble);
    Random draws = random.fork(static_cast<std::uint64_t>(window));
    std::generate_n(projection.data_ptr<double>(), projection.numel(), [&draws] { return draws.normal(); });
    sums += did.t().matmul(projection);
  }
  if (activations.windows() == 0) throw std::invalid_argument("there are no recorded inputs");
  const at::Tensor points = dimensions == 0 ? at::cat(profiles, 1) : sums / std::sqrt(static_cast<double>(dimensions));
  return (points / squares.sqrt().clamp_min(1e-12).unsqueeze(1)).to(at::kFloat);
}

class Split final : public ExpertConstructor {
 public:
  struct Options {
    std::optional<std::int64_t> count, size;
    std::shared_ptr<Clusterer> clusterer;
    Points points;
    Feature feature;
  };
  static constexpr Parameter parameters[] = {
      optional<&Options::count>("count", "experts; must divide the neurons of the feed-forward. Either this or `size`")
          .at_least(1)
          .in("experts"),
      optional<&Options::size>("size", "neurons of an expert; must divide those of the feed-forward. Either this or `count`")
          .at_least(1)
          .in("neurons"),
      param<&Options::clusterer>("clusterer", "balanced-kmeans", "which neurons go together; must give clusters of equal size"),
      param<&Options::points>("points", Points::keys,
                              "what a neuron is to the clusterer: its key, or what it did on recorded tokens"),
      param<&Options::feature>("feature", Feature::normalised_keys, "of points = keys: the key as direction, or as it is")};

  explicit Split(Options options) : options_(std::move(options)) {}

  Needs needs() const override {
    Needs needs;
    needs.activations = options_.points == Points::co_activations;
    return needs;
  }
  void check(const Facts& facts, Problems& problems) const override {
    if (options_.count && options_.size) problems.add("size", "says the same as count: only one of them can be given");
    if (!options_.count && !options_.size) problems.add("count", "how many experts? count or size must be given");
    if (facts.site != nullptr && facts.site->place != Place::feed_forward) problems.add("", "splits feed-forwards alone");
    const std::int64_t neurons = facts.site != nullptr ? facts.site->inner : 0;
    if (neurons > 0 && options_.count && neurons % *options_.count != 0) {
      problems.add("count", std::to_string(neurons) + " neurons cannot be split into " + std::to_string(*options_.count) +
                                " experts of equal size" + near_divisors(*options_.count, neurons));
    }
    if (neurons > 0 && options_.size && neurons % *options_.size != 0) {
      problems.add("size", std::to_string(neurons) + " neurons cannot be split into experts of " +
                               std::to_string(*options_.size) + near_divisors(*options_.size, neurons));
    }
    if (facts.sources > 1) problems.add("", "splits one model, but " + std::to_string(facts.sources) + " are read");
    const Abilities abilities = options_.clusterer->abilities();
    if (!abilities.fixed_count || !abilities.equal_sizes) {
      problems.add("clusterer", "cannot be told to make a given number of clusters of equal size, which split needs");
    }
  }
  std::int64_t count(const Facts& facts) const override {
    return options_.count || facts.site != nullptr ? experts_of(facts.site) : 0;
  }

  void plan(const Sources& sources, const Site& site, const Activations* activations, Random random) override {
    if (sources.empty()) throw std::invalid_argument("splits a model that is read, but none is");
    const std::int64_t n = experts_of(&site), neurons = sources[0].at("in").size(0), size = neurons / n;
    if (neurons != site.inner || size * n != neurons) throw std::invalid_argument("count does not divide the neurons");
    const at::Tensor points = points_of(sources[0], activations, random);
    const at::Tensor labels = options_.clusterer->fit(points, n, random).labels.to(at::kLong).contiguous();
    if (labels.dim() != 1 || labels.size(0) != neurons) throw std::runtime_error("the clusterer did not give one label a neuron");
    labels_.assign(labels.data_ptr<std::int64_t>(), labels.data_ptr<std::int64_t>() + neurons);
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(n), 0);
    for (const std::int64_t label : labels_) {
      if (label < 0 || label >= n || ++sizes[static_cast<std::size_t>(label)] > size) {
        throw std::runtime_error("the clusterer did not give clusters of equal size");
      }
    }
  }

  Layout bind(const Site& site, Parameters& to) override {
    const std::int64_t n = experts_of(&site);
    for (const Role& role : layer_roles(site)) {
      Spec all = spec(role.name, of_all(role, n)).of_experts();
      all.decays = !role.is_bias();
      to.add(role.name == "out_bias" ? constructors::shared_by_experts(role) : std::move(all));
    }
    return {};
  }

  TensorMap expand(const Sources& sources, const Site& site) const override {
    const std::int64_t n = experts_of(&site), s = site.inner / n, d = site.width;
    const at::Tensor order = at::tensor(neurons_by_expert(site), at::kLong);
    TensorMap bank;
    for (const Role& role : layer_roles(site)) {
      const at::Tensor dense = constructors::read_role(sources.at(0), role);
      if (role.name == "out_bias")
        bank[role.name] = dense.clone().view({1, d});
      else if (role.name == "out")
        bank[role.name] = dense.index_select(1, order).view({d, n, s}).permute({1, 0, 2}).contiguous();
      else
        bank[role.name] = dense.index_select(0, order).view(of_all(role, n));
    }
    return bank;
  }

  TensorMap collapse(const TensorMap& bank, const Site& site) const override {
    const std::vector<std::int64_t> neurons = neurons_by_expert(site);
    std::vector<std::int64_t> places(neurons.size());  // of each neuron among those of the experts
    for (std::size_t i = 0; i < neurons.size(); ++i) places[static_cast<std::size_t>(neurons[i])] = static_cast<std::int64_t>(i);
    const at::Tensor order = at::tensor(places, at::kLong);
    TensorMap dense;
    for (const Role& role : layer_roles(site)) {
      const at::Tensor& of_experts = bank.at(role.name);
      if (role.name == "out_bias")
        dense[role.name] = of_experts.view({site.width}).clone();
      else if (role.name == "out")
        dense[role.name] = of_experts.permute({1, 0, 2}).reshape(role.shape).index_select(1, order);
      else
        dense[role.name] = of_experts.reshape(role.shape).index_select(0, order);
    }
    return dense;
  }

  /// A neuron's moments go where the neuron goes.
  bool keeps_moments() const override { return true; }
  void state(Archive& archive) override { archive("labels", labels_); }

 private:
  /// The shape of a role of n experts: each has an n-th of the neurons.
  static std::vector<std::int64_t> of_all(const Role& role, std::int64_t n) {
    std::vector<std::int64_t> shape = role.shape;
    std::int64_t& neurons = role.name == "out" ? shape[1] : shape[0];
    neurons /= n;
    return constructors::with_experts(n, shape);
  }
  /// The neurons of the first expert in ascending order, then those of the second, …
  std::vector<std::int64_t> neurons_by_expert(const Site& site) const {
    if (static_cast<std::int64_t>(labels_.size()) != site.inner) throw std::logic_error("expand before plan");
    std::vector<std::int64_t> neurons(labels_.size());
    std::iota(neurons.begin(), neurons.end(), 0);
    std::stable_sort(neurons.begin(), neurons.end(), [&](std::int64_t a, std::int64_t b) { return label(a) < label(b); });
    return neurons;
  }
  std::int64_t label(std::int64_t neuron) const { return labels_[static_cast<std::size_t>(neuron)]; }
  std::int64_t experts_of(const Site* site) const {
    if (options_.count) return *options_.count;
    return site != nullptr && options_.size ? std::max<std::int64_t>(1, site->inner / *options_.size) : 1;
  }
  at::Tensor points_of(const TensorMap& dense, const Activations* activations, const Random& random) const {
    if (options_.points == Points::co_activations) {
      if (activations == nullptr) throw std::invalid_argument("there are no recorded inputs");
      return co_activations(dense, *activations, random.fork("projection"));
    }
    const at::Tensor keys = dense.at("in").detach().to(at::kFloat);
    return options_.feature == Feature::keys ? keys : keys / keys.norm(2, {1}, /*keepdim=*/true).clamp_min(1e-12);
  }
  /// "; 8 or 16 would do": the divisors of the neurons on either side of a number.
  static std::string near_divisors(std::int64_t number, std::int64_t neurons) {
    std::int64_t below = std::min(number, neurons), above = number;
    while (neurons % below != 0) --below;
    while (above <= neurons && neurons % above != 0) ++above;
    if (above > neurons) return "; " + std::to_string(below) + " would do";
    return "; " + std::to_string(below) + " or " + std::to_string(above) + " would do";
  }

  Options options_;
  std::vector<std::int64_t> labels_;  ///< the expert of each neuron
};

}  // namespace

MOIETY_PLUGIN("split", "1.1.0", "Experts from the neurons of one dense feed-forward",
              component<Split>("split", 1, "Splits a feed-forward into experts by clustering its neurons",
                               "Zhang et al., MoEfication, Findings of ACL 2022; Qiu et al., EMoE, NAACL 2024"));
