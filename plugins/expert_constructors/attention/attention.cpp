// Makes attention experts: each a whole attention of its own, of one model or of several.
//
//   expert n = q, k, v, o of source n        n = 1 … S; with one source, `count` copies of it
//   keys_values = shared                     one k and one v for all: the mean of what the experts would own
//
// weights = first and average are controls: as many experts, but all of them the first source's attention or the mean of all.
// Biases go with their matrices. Zhang et al.: "BAM! Just Like That", NeurIPS 2024, section 3. (A number of experts that the
// router finds, one copy a cluster as in CSE, is the affair of `copy`.)
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "moiety/expert_constructor.h"

namespace {

using namespace moiety;

MOIETY_CHOICE(KeysValues, own, shared);
MOIETY_CHOICE(Weights, own, first, average);

class Attention final : public ExpertConstructor {
 public:
  struct Options {
    KeysValues keys_values;
    Weights weights;
    std::int64_t count;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::keys_values>("keys_values", KeysValues::own, "whether every expert has keys and values, or all share one"),
      param<&Options::weights>("weights", Weights::own,
                               "what an expert starts as: its own model's attention, the first model's, or the mean of all"),
      param<&Options::count>("count", 0, "experts; 0: as many as models are read").range(0, 100000).in("experts")};

  explicit Attention(const Options& options) : options_(options) {}

  void check(const Facts& facts, Problems& problems) const override {
    if (facts.site != nullptr && facts.site->place != Place::attention) problems.add("", "makes experts of attention alone");
    if (facts.sources > 1 && options_.count != 0 && options_.count != facts.sources)
      problems.add("count", "is " + std::to_string(options_.count) + ", but " + std::to_string(facts.sources) +
                                " models are read, one for each expert: leave it out");
  }
  std::int64_t count(const Facts& facts) const override { return options_.count > 0 ? options_.count : facts.sources; }

  void plan(const Sources& sources, const Site& site, const Activations*, Random) override {
    const std::int64_t d = site.width;
    for (std::size_t n = 0; n < sources.size(); ++n) {
      for (const char* role : {"q", "k", "v", "o"}) {
        const auto found = sources[n].find(role);
        if (found == sources[n].end() || found->second.sizes() != at::IntArrayRef({d, d}))
          throw std::invalid_argument("model " + std::to_string(n + 1) + " of those read has no `" + role +
                                      "` of the shape of the first one's");
      }
    }
  }

  /// A model that starts fresh gets the starts of a dense attention, independent for each expert.
  Layout bind(const Site& site, Parameters& to) override {
    const std::int64_t n = site.experts, d = site.width;
    const bool shared = options_.keys_values == KeysValues::shared;
    const double sd = 0.02, residual_sd = sd / std::sqrt(2.0 * static_cast<double>(std::max<std::int64_t>(1, site.layers)));
    to.add(spec("q", {n, d, d}).normal(sd).of_experts());
    to.add(spec("q_bias", {n, d}).of_experts().without_decay());
    for (const char* role : {"k", "v"}) {
      Spec matrix = spec(role, {shared ? 1 : n, d, d}).normal(sd);
      Spec bias = spec(role + std::string("_bias"), {shared ? 1 : n, d}).without_decay();
      matrix.per_expert = bias.per_expert = !shared;
      to.add(std::move(matrix));
      to.add(std::move(bias));
    }
    to.add(spec("o", {n, d, d}).normal(residual_sd).of_experts());
    to.add(spec("o_bias", {n, d}).of_experts().without_decay());
    return {};
  }

  TensorMap expand(const Sources& sources, const Site& site) const override {
    if (sources.empty()) return {};
    if (sources.size() > 1 && static_cast<std::int64_t>(sources.size()) != site.experts)
      throw std::invalid_argument(std::to_string(sources.size()) + " models do not make " + std::to_string(site.experts) +
                                  " experts");
    TensorMap bank;
    for (const char* role : {"q", "k", "v", "o"}) {
      const bool shared = options_.keys_values == KeysValues::shared && (*role == 'k' || *role == 'v');
      for (const std::string& name : {std::string(role), role + std::string("_bias")}) {
        const at::Tensor of_experts = experts(sources, name, site);
        bank[name] = shared ? mean(of_experts).unsqueeze(0) : of_experts;
      }
    }
    return bank;
  }

 private:
  static at::Tensor mean(const at::Tensor& all) { return all.to(at::kDouble).mean(0).to(all.scalar_type()); }

  /// [N, …]: what each expert would own; a model without the role (a bias) counts as zeros.
  at::Tensor experts(const Sources& sources, const std::string& role, const Site& site) const {
    std::vector<at::Tensor> list;
    for (const TensorMap& source : sources) {
      const auto found = source.find(role);
      list.push_back(found != source.end() ? found->second.detach() : at::zeros({site.width}, source.at("q").options()));
    }
    at::Tensor all = at::stack(list);
    if (options_.weights == Weights::first) all = all.narrow(0, 0, 1);
    if (options_.weights == Weights::average) all = mean(all).unsqueeze(0);
    std::vector<std::int64_t> shape = all.sizes().vec();
    shape[0] = site.experts;
    return all.expand(shape).contiguous();
  }

  Options options_;
};

}  // namespace

MOIETY_PLUGIN("attention", "1.0.0", "Attention experts",
              component<Attention>("attention", 1, "The attentions of several models, or copies of one, become experts",
                                   "Zhang et al., BAM, NeurIPS 2024, section 3"));
