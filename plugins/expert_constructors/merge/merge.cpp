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
    for (std::size_t n = 0; n < sources.size(); ++n) {
      expect(sources[n], n, "in", {site.inner, site.width});
      expect(sources[n], n, "out", {site.width, site.inner});
    }
  }

  Layout bind(const Site& site, Parameters& to) override {
    const std::int64_t n = site.experts, f = site.inner, d = site.width;
    to.add(spec("in", {n, f, d}).of_experts());
    to.add(spec("in_bias", {n, f}).of_experts().without_decay());
    to.add(spec("out", {n, d, f}).of_experts());
    to.add(spec("out_bias", {n, d}).of_experts().without_decay());
    return {};
  }

  TensorMap expand(const Sources& sources, const Site& site) const override {
    if (static_cast<std::int64_t>(sources.size()) + options_.seed_copies != site.experts)
      throw std::invalid_argument(std::to_string(sources.size()) + " models and " + std::to_string(options_.seed_copies) +
                                  " copies do not make " + std::to_string(site.experts) + " experts");
    return {{"in", experts(sources, "in", {site.inner, site.width})},
            {"in_bias", experts(sources, "in_bias", {site.inner})},
            {"out", experts(sources, "out", {site.width, site.inner})},
            {"out_bias", experts(sources, "out_bias", {site.width})}};
  }

 private:
  static void expect(const TensorMap& source, std::size_t number, const char* role, at::IntArrayRef shape) {
    const auto found = source.find(role);
    if (found == source.end() || found->second.sizes() != shape)
      throw std::invalid_argument("model " + std::to_string(number + 1) + " of those read has no `" + role +
                                  "` of the shape of the first one's");
  }

  /// One role of all experts; a model without it counts as zeros.
  at::Tensor experts(const Sources& sources, const char* role, at::IntArrayRef shape) const {
    std::vector<at::Tensor> list;
    for (const TensorMap& source : sources) {
      const auto found = source.find(role);
      list.push_back(found != source.end() ? found->second.detach() : at::zeros(shape, source.at("in").options()));
    }
    const at::Tensor first = list.front();
    const at::Tensor average = at::stack(list).to(at::kDouble).mean(0).to(first.scalar_type());
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
