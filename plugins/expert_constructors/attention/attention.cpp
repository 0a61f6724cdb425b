// Makes attention experts: each a whole attention of its own, of one model or of several.
//
//   expert n = q, k, v, o of source n        n = 1 … S; with one source, `count` copies of it
//   keys_values = shared                     one k and one v for all: the mean of what the experts would own
//
// weights = first and average are controls: as many experts, but all of them the first source's attention or the mean of all.
// Biases go with their matrices. Zhang et al.: "BAM! Just Like That", NeurIPS 2024, section 3. (A number of experts that the
// router finds, one copy a cluster as in CSE, is the affair of `copy`.)
#include <ATen/ATen.h>

#include <stdexcept>

#include "../dense_layers.h"
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
    constructors::expect_matrices(sources, site);
  }

  /// A model that starts fresh gets the starts of a dense attention, independent for each expert.
  Layout bind(const Site& site, Parameters& to) override {
    for (const Role& role : layer_roles(site))
      to.add(is_shared(role) ? constructors::shared_by_experts(role) : constructors::of_experts(role, site.experts));
    return {};
  }

  TensorMap expand(const Sources& sources, const Site& site) const override {
    if (sources.empty()) return {};
    if (sources.size() > 1 && static_cast<std::int64_t>(sources.size()) != site.experts)
      throw std::invalid_argument(std::to_string(sources.size()) + " models do not make " + std::to_string(site.experts) +
                                  " experts");
    TensorMap bank;
    for (const Role& role : layer_roles(site)) {
      const at::Tensor own = experts(sources, role, site.experts);
      bank[role.name] = is_shared(role) ? constructors::mean_of(own).unsqueeze(0) : own;
    }
    return bank;
  }

 private:
  bool is_shared(const Role& role) const {
    return options_.keys_values == KeysValues::shared && (role.name[0] == 'k' || role.name[0] == 'v');
  }

  /// [N, …]: what each expert would own.
  at::Tensor experts(const Sources& sources, const Role& role, std::int64_t number) const {
    std::vector<at::Tensor> list;
    for (const TensorMap& source : sources) list.push_back(constructors::read_role(source, role));
    at::Tensor all = at::stack(list);
    if (options_.weights == Weights::first) all = all.narrow(0, 0, 1);
    if (options_.weights == Weights::average) all = constructors::mean_of(all).unsqueeze(0);
    return all.expand(constructors::with_experts(number, role.shape)).contiguous();
  }

  Options options_;
};

}  // namespace

MOIETY_PLUGIN("attention", "1.0.0", "Attention experts",
              component<Attention>("attention", 1, "The attentions of several models, or copies of one, become experts",
                                   "Zhang et al., BAM, NeurIPS 2024, section 3"));
