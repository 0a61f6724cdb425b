#include "kernel/engine/model/dense_roles.h"

#include <ATen/ATen.h>

#include "kernel/engine/layers/expert_site.h"

namespace moiety::engine {

std::vector<std::string> dense_names(Place place, std::int64_t layer) {
  const std::string prefix = site_prefix(place, layer);
  if (place == Place::attention) return {prefix + "qkv", prefix + "qkv_bias", prefix + "output", prefix + "output_bias"};
  return {prefix + "in", prefix + "in_bias", prefix + "out", prefix + "out_bias"};
}

TensorMap dense_roles(const TensorMap& tensors, Place place, std::int64_t layer) {
  const std::string prefix = site_prefix(place, layer);
  TensorMap roles;
  const auto found = [&](const std::string& name) {
    const auto one = tensors.find(prefix + name);
    return one == tensors.end() ? at::Tensor() : one->second;
  };
  const auto add = [&](const char* role, const at::Tensor& value) {
    if (value.defined()) roles.emplace(role, value);
  };
  if (place == Place::feed_forward) {
    for (const char* role : {"in", "in_bias", "out", "out_bias"}) add(role, found(role));
    return roles;
  }
  const at::Tensor qkv = found("qkv"), bias = found("qkv_bias");
  const char* parts[] = {"q", "k", "v"};
  const char* biases[] = {"q_bias", "k_bias", "v_bias"};
  for (std::int64_t i = 0; i < 3; ++i) {
    if (qkv.defined()) add(parts[i], qkv.narrow(0, i * qkv.size(0) / 3, qkv.size(0) / 3).contiguous());
    if (bias.defined()) add(biases[i], bias.narrow(0, i * bias.size(0) / 3, bias.size(0) / 3).contiguous());
  }
  add("o", found("output"));
  add("o_bias", found("output_bias"));
  return roles;
}

TensorMap dense_tensors(const TensorMap& roles, Place place, std::int64_t layer) {
  const std::string prefix = site_prefix(place, layer);
  if (place == Place::feed_forward) {
    TensorMap tensors;
    for (const auto& [role, value] : roles) tensors.emplace(prefix + role, value);
    return tensors;
  }
  return {{prefix + "qkv", at::cat({roles.at("q"), roles.at("k"), roles.at("v")})},
          {prefix + "qkv_bias", at::cat({roles.at("q_bias"), roles.at("k_bias"), roles.at("v_bias")})},
          {prefix + "output", roles.at("o")},
          {prefix + "output_bias", roles.at("o_bias")}};
}

}  // namespace moiety::engine
