// Components that do what a test tells them, without a plugin.
#ifndef MOIETY_KERNEL_ENGINE_TESTING_FAKE_COMPONENTS_H_
#define MOIETY_KERNEL_ENGINE_TESTING_FAKE_COMPONENTS_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "kernel/engine/model/model_file.h"
#include "kernel/engine/plugins/component_set.h"
#include "moiety/expert_constructor.h"
#include "moiety/router.h"

namespace moiety::engine::testing {

struct RouterBehaviour {
  using Route = std::function<Routing(const RouterInput&)>;
  Route route;
  double experts_per_row = 2;
  Rows rows = Rows::token;
  std::function<void(const Observed&)> after_step = [](const Observed&) {};
};
class ScriptedRouter final : public Router {
 public:
  explicit ScriptedRouter(RouterBehaviour behaviour) : behaviour_(std::move(behaviour)) {}
  RouterCost cost(const Site&) const override { return {behaviour_.experts_per_row, 0}; }
  Rows rows() const override { return behaviour_.rows; }
  void bind(const Site&, Parameters&, const Bank&) override {}
  void after_step(const Observed& observed) override { behaviour_.after_step(observed); }
  Routing route(const RouterInput& input) const override { return behaviour_.route(input); }

 private:
  RouterBehaviour behaviour_;
};
/// What instance<FakeRouter>() is told.
struct FakeRouter : RouterBehaviour {
  using Made = ScriptedRouter;
  explicit FakeRouter(Route r) { route = std::move(r); }
};

struct BankShape {
  std::int64_t neurons = 1;  ///< of an expert
  bool biases = true, own_out_bias = false;
  std::int64_t experts = 0;  ///< 0: the site's
};
class ShapedConstructor final : public ExpertConstructor {
 public:
  explicit ShapedConstructor(BankShape shape) : shape_(shape) {}
  std::int64_t count(const Facts&) const override { return shape_.experts; }
  void plan(const Sources&, const Site&, const Activations*, Random) override {}
  Layout bind(const Site& site, Parameters& parameters) override {
    const std::int64_t n = shape_.experts > 0 ? shape_.experts : site.experts, s = shape_.neurons, d = site.width;
    parameters.add(spec("in", {n, s, d}).normal(0.5).of_experts());
    if (site.gated()) parameters.add(spec("up", {n, s, d}).normal(0.5).of_experts());
    parameters.add(spec("out", {n, d, s}).normal(0.5).of_experts());
    if (!shape_.biases || !site.biases) return {};
    parameters.add(spec("in_bias", {n, s}).normal(0.5).of_experts());
    if (site.gated()) parameters.add(spec("up_bias", {n, s}).normal(0.5).of_experts());
    parameters.add(spec("out_bias", {shape_.own_out_bias ? n : 1, d}).normal(0.5));
    return {};
  }
  TensorMap expand(const Sources&, const Site&) const override { return {}; }

 private:
  BankShape shape_;
};
struct FakeConstructor : BankShape {
  using Made = ShapedConstructor;
  FakeConstructor(std::int64_t s, bool with_biases, bool own) {
    neurons = s;
    biases = with_biases;
    own_out_bias = own;
  }
};

/// `kind`: "router", …; the component is called "fake".
template <class Fake>
Instance instance(const char* kind, Fake told) {
  static const ComponentEntry entry = [kind] {
    ComponentEntry made;
    made.kind = kind;
    made.name = "fake";
    return made;
  }();
  Instance made;
  made.entry = &entry;
  made.name = kept_text(std::string(kind) + "/fake@1");
  made.component = std::make_shared<typename Fake::Made>(std::move(told));
  made.config = nlohmann::json::object();
  return made;
}

/// A site in layer 1 of which a token runs two of four experts of five neurons, by weights that depend on what it sees, so that
/// gradients run through them too.
inline Sites two_of_four_experts(const Architecture& a) {
  Site site = site_of(a, Place::feed_forward, 1);
  site.experts = 4;
  Sites sites;
  sites.push_back(
      std::make_unique<ExpertSite>(site, instance<FakeConstructor>("expert_constructor", FakeConstructor{5, true, true}),
                                   instance<FakeRouter>("router", FakeRouter{[](const RouterInput& in) {
                                                          Routing r;
                                                          const at::Tensor p = in.hidden.flatten(0, 1).narrow(1, 0, 4).softmax(1);
                                                          r.experts = std::get<1>(p.detach().topk(2, 1));
                                                          r.weights = p.gather(1, r.experts);
                                                          return r;
                                                        }})));
  return sites;
}

}  // namespace moiety::engine::testing

#endif  // MOIETY_KERNEL_ENGINE_TESTING_FAKE_COMPONENTS_H_
