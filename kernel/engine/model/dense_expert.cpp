#include "kernel/engine/model/dense_expert.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <functional>

#include "kernel/engine/model/dense_roles.h"
#include "kernel/engine/model/model_file.h"

namespace moiety::engine {
namespace {

/// Neurons of a feed-forward once each site is one expert; 0: they differ.
std::int64_t common_neurons(const Gpt& model) {
  std::int64_t neurons = 0;
  for (std::int64_t layer = 0; layer < model.architecture().layers; ++layer) {
    const ExpertSite* site = model.site(Place::feed_forward, layer);
    const std::int64_t here = site != nullptr ? site->bank().neurons() : model.architecture().inner;
    if (layer > 0 && here != neurons) return 0;
    neurons = here;
  }
  return neurons;
}

/// All tensors of the model but those of its sites, whose places hold the dense layer that `roles` gives.
Result<std::unique_ptr<Gpt>> with_dense_sites(const Gpt& model, std::int64_t neurons,
                                              const std::function<Result<TensorMap>(const ExpertSite&)>& roles) {
  if (model.sites().empty()) return fail(ErrorKind::failed, no_experts);
  Architecture shape = model.architecture();
  shape.inner = neurons;
  TensorMap tensors;
  for (const auto& entry : model.parameters().entries()) tensors.emplace(entry.name, *entry.tensor);
  for (const auto& site : model.sites()) {
    const Site& place = site->site();
    erase_experts(tensors, place.place, place.layer);
    const auto dense = roles(*site);
    if (!dense) return pass(dense);
    for (const auto& [name, value] : dense_tensors(*dense, place.place, place.layer)) tensors[name] = value;
  }
  auto dense = std::make_unique<Gpt>(shape, Sites{});
  if (auto status = load_tensors(*dense, tensors); !status) return pass(status);
  return dense;
}

/// One of the whole models of a mixture.
Result<std::unique_ptr<Gpt>> whole_expert(const Gpt& model, std::int64_t experts, std::int64_t expert) {
  if (expert < 0 || expert >= experts)
    return fail(ErrorKind::failed, fmt::format("there is no expert {}: there are {} whole models", expert, experts));
  const std::string prefix = expert_prefix(expert);
  TensorMap tensors;
  for (const auto& entry : model.parameters().entries())
    if (entry.name.rfind(prefix, 0) == 0) tensors.emplace(entry.name.substr(prefix.size()), *entry.tensor);
  auto dense = std::make_unique<Gpt>(model.architecture(), Sites{});
  if (auto status = load_tensors(*dense, tensors); !status) return pass(status);
  return dense;
}

}  // namespace

Result<std::unique_ptr<Gpt>> dense_expert(const Gpt& model, std::int64_t expert) {
  const at::NoGradGuard no_gradient;
  if (const ExpertSite* whole = model.site(Place::whole, 0)) return whole_expert(model, whole->site().experts, expert);
  const std::int64_t neurons = common_neurons(model);
  if (neurons == 0) return fail(ErrorKind::failed, "feed-forwards and experts of different sizes make no dense model");
  return with_dense_sites(model, neurons, [&](const ExpertSite& site) -> Result<TensorMap> {
    const Site& place = site.site();
    if (expert < 0 || expert >= place.experts)
      return fail(ErrorKind::failed, fmt::format("there is no expert {}: the {} of layer {} has {}", expert, name_of(place.place),
                                                 place.layer, place.experts));
    TensorMap roles;
    const std::vector<std::int64_t> one{expert};
    for (const auto& rule : roles_of(place)) {
      const at::Tensor value = site.bank().maybe(rule.role, &one);
      // A bias that the experts have not is 0 in the dense layer.
      std::vector<std::int64_t> sides = rule.shape;
      for (std::int64_t& side : sides) side = side < 0 ? neurons : side;
      roles.emplace(rule.role, value.defined() ? value.select(0, 0).contiguous() : at::zeros(sides));
    }
    return roles;
  });
}

Result<std::unique_ptr<Gpt>> recomposed(const Gpt& model) {
  const at::NoGradGuard no_gradient;
  if (model.site(Place::whole, 0) != nullptr) return fail(ErrorKind::usage, whole_models);
  return with_dense_sites(model, model.architecture().inner, [&](const ExpertSite& site) -> Result<TensorMap> {
    const Instance& constructor = site.constructor();
    TensorMap bank;
    for (const auto& rule : roles_of(site.site()))
      if (site.bank().has(rule.role)) bank.emplace(rule.role, site.bank().weight(rule.role).detach());
    TensorMap dense =
        call("collapse", constructor, [&] { return constructor.as<ExpertConstructor>().collapse(bank, site.site()); });
    if (dense.empty())
      return fail(ErrorKind::usage,
                  fmt::format("{} knows no way back: its experts are not the parts of one dense layer", constructor.name));
    return dense;
  });
}

}  // namespace moiety::engine
