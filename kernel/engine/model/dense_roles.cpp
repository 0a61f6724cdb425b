#include "kernel/engine/model/dense_roles.h"

#include <ATen/ATen.h>

#include "kernel/engine/layers/expert_site.h"

namespace moiety::engine {
namespace {

constexpr const char* roles_of_feed_forward[] = {"in", "in_bias", "up", "up_bias", "out", "out_bias"};

}  // namespace

std::vector<std::string> dense_names(Place place, std::int64_t layer) {
  if (place == Place::whole) return {};
  const std::string prefix = site_prefix(place, layer);
  if (place == Place::attention) return {prefix + "qkv", prefix + "qkv_bias", prefix + "output", prefix + "output_bias"};
  std::vector<std::string> names;
  for (const char* role : roles_of_feed_forward) names.push_back(prefix + role);
  return names;
}

TensorMap dense_roles(const TensorMap& tensors, Place place, std::int64_t layer) {
  const std::string prefix = site_prefix(place, layer);
  TensorMap roles;
  if (place == Place::whole) return roles;
  const auto found = [&](const std::string& name) {
    const auto one = tensors.find(prefix + name);
    return one == tensors.end() ? at::Tensor() : one->second;
  };
  const auto add = [&](const std::string& role, const at::Tensor& value) {
    if (value.defined()) roles.emplace(role, value);
  };
  if (place == Place::feed_forward) {
    for (const char* role : roles_of_feed_forward) add(role, found(role));
    return roles;
  }
  const at::Tensor qkv = found("qkv"), bias = found("qkv_bias"), output = found("output");
  if (!qkv.defined() || !output.defined()) return roles;
  const std::int64_t queries = output.size(1), keys = (qkv.size(0) - queries) / 2;
  const auto add_part = [&](const std::string& role, std::int64_t first, std::int64_t rows) {
    add(role, qkv.narrow(0, first, rows).contiguous());
    if (bias.defined()) add(role + "_bias", bias.narrow(0, first, rows).contiguous());
  };
  add_part("q", 0, queries);
  add_part("k", queries, keys);
  add_part("v", queries + keys, keys);
  add("o", output);
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
  TensorMap tensors{{prefix + "qkv", at::cat({roles.at("q"), roles.at("k"), roles.at("v")})}, {prefix + "output", roles.at("o")}};
  if (roles.count("q_bias") > 0) {
    tensors[prefix + "qkv_bias"] = at::cat({roles.at("q_bias"), roles.at("k_bias"), roles.at("v_bias")});
    tensors[prefix + "output_bias"] = roles.at("o_bias");
  }
  return tensors;
}

void erase_experts(TensorMap& tensors, Place place, std::int64_t layer) {
  for (auto entry = tensors.begin(); entry != tensors.end();) {
    const bool of_experts = is_of_experts(entry->first, place, layer) || entry->first.rfind("all_sites.", 0) == 0;
    entry = of_experts ? tensors.erase(entry) : std::next(entry);
  }
}

}  // namespace moiety::engine
