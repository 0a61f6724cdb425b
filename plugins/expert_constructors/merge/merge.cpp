// Makes one bank of experts of the feed-forwards of several models, as they are.
//
//   expert n = feed-forward of source n            n = 1 … S, in the order in which they are read: the seed first
//   expert S + i = feed-forward of source 1        i = 1 … seed_copies
//
// weights = first and average are controls: as many experts, but all of them the first source's feed-forward or the mean of all,
// so that nothing a branch has learned is told apart. Sukhbaatar et al.: "Branch-Train-MiX", COLM 2024, section 3.2; Zhang et
// al.: BAM, NeurIPS 2024 (seed copies: its baselines of 5 to 8 experts).
#include <ATen/ATen.h>

#include <stdexcept>

#include "../dense_layers.h"
#include "moiety/expert_constructor.h"

namespace {

using namespace moiety;

MOIETY_CHOICE(Weights, own, first, average);

class Merge final : public ExpertConstructor {
 public:
  struct Options {
    Weights weights;
    std::int64_t seed_copies;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::weights>("weights", Weights::own,
                               "what an expert starts as: its own model's feed-forward, the first model's, or the mean of all"),
      param<&Options::seed_copies>("seed_copies", 0, "further experts that are copies of the first model's feed-forward")
          .range(0, 100000)
          .in("experts")};

  explicit Merge(const Options& options) : options_(options) {}

  /// Without sources there is nothing to merge: 0, which nobody else can make a number of.
  std::int64_t count(const Facts& facts) const override { return facts.sources > 0 ? facts.sources + options_.seed_copies : 0; }

  void plan(const Sources& sources, const Site& site, const Activations*, Random) override {
    if (sources.empty()) throw std::invalid_argument("merges the models that are read, but none is");
    constructors::expect_matrices(sources, site);
  }

  Layout bind(const Site& site, Parameters& to) override {
    for (const Role& role : layer_roles(site)) to.add(constructors::of_experts(role, site.experts));
    return {};
  }

  TensorMap expand(const Sources& sources, const Site& site) const override {
    if (static_cast<std::int64_t>(sources.size()) + options_.seed_copies != site.experts)
      throw std::invalid_argument(std::to_string(sources.size()) + " models and " + std::to_string(options_.seed_copies) +
                                  " copies do not make " + std::to_string(site.experts) + " experts");
    TensorMap bank;
    for (const Role& role : layer_roles(site)) bank[role.name] = experts(sources, role);
    return bank;
  }

 private:
  at::Tensor experts(const Sources& sources, const Role& role) const {
    std::vector<at::Tensor> list;
    for (const TensorMap& source : sources) list.push_back(constructors::read_role(source, role));
    const at::Tensor first = list.front(), average = constructors::mean_of(at::stack(list));
    for (at::Tensor& one : list) {
      if (options_.weights != Weights::own) one = options_.weights == Weights::first ? first : average;
    }
    list.insert(list.end(), static_cast<std::size_t>(options_.seed_copies),
                options_.weights == Weights::average ? average : first);
    return at::stack(list);
  }

  Options options_;
};

}  // namespace

MOIETY_PLUGIN("merge", "1.0.0", "Experts from the feed-forwards of several models",
              component<Merge>("merge", 1, "The feed-forwards of several models become the experts of one",
                               "Sukhbaatar et al., Branch-Train-MiX, COLM 2024, section 3.2"));
