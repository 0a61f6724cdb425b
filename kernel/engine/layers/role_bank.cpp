#include "kernel/engine/layers/role_bank.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace moiety::engine {
namespace {

/// Declares in the store and remembers what was declared, with the shape that was asked for.
class DeclaredTensors final : public Parameters {
 public:
  DeclaredTensors(ParameterStore& store, std::string prefix) : inner_(store, std::move(prefix)) {}
  Weight add(Spec spec) override {
    const std::string name = spec.name;
    shapes[name] = spec.shape;
    return weights[name] = inner_.add(std::move(spec));
  }
  std::map<std::string, Weight> weights;
  std::map<std::string, std::vector<std::int64_t>> shapes;

 private:
  PrefixedParameters inner_;
};

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace

std::vector<RoleRule> roles_of(const Site& site) {
  std::vector<RoleRule> rules;
  for (const Role& role : layer_roles(site)) {
    const std::string matrix = role.name.substr(0, role.name.find('_'));
    const bool of_keys = site.place == Place::attention && (matrix == "k" || matrix == "v");
    RoleRule rule{role.name, role.shape, !role.is_bias(), of_keys || role.name == "out_bias" || role.name == "o_bias"};
    if (site.place == Place::feed_forward && role.name != "out_bias") (matrix == "out" ? rule.shape[1] : rule.shape[0]) = -1;
    rules.push_back(std::move(rule));
  }
  return rules;
}

void RoleBank::bind(const Instance& constructor, ParameterStore& store, const std::string& prefix) {
  DeclaredTensors declared(store, prefix);
  constructor_ = &constructor;
  layout_ = call("bind", constructor, [&] { return constructor.as<ExpertConstructor>().bind(site_, declared); });
  const auto refuse = [&](const std::string& what) { throw ComponentFailure(constructor.name, "bind", what); };
  const char* what = site_.place == Place::attention ? "attention" : site_.place == Place::whole ? "whole model" : "feed-forward";
  const std::vector<RoleRule> rules = roles_of(site_);
  for (const auto& rule : rules) {
    const auto stored = declared.shapes.find(rule.role);
    const auto derived = layout_.derived.find(rule.role);
    if (stored != declared.shapes.end() && derived != layout_.derived.end())
      refuse(fmt::format("`{}` is both stored and derived", rule.role));
    if (stored != declared.shapes.end()) {
      shapes_[rule.role] = stored->second;
      stored_[rule.role] = declared.weights.at(rule.role);
    } else if (derived != layout_.derived.end()) {
      shapes_[rule.role] = derived->second;
    } else if (rule.required) {
      refuse(fmt::format("the role `{}` must be declared", rule.role));
    }
  }
  for (const auto& [role, shape] : layout_.derived)
    if (shapes_.count(role) == 0) refuse(fmt::format("no {} has a role `{}`", what, role));
  if (layout_.derived.empty())
    for (const auto& [name, shape] : declared.shapes)
      if (shapes_.count(name) == 0) refuse(fmt::format("no {} has a role `{}`", what, name));
  if (site_.place == Place::feed_forward) {
    const auto& in = shapes_.at("in");
    neurons_ = in.size() == 3 ? in[1] : 0;
  }
  for (const auto& rule : rules) {
    const auto found = shapes_.find(rule.role);
    if (found == shapes_.end()) continue;
    std::vector<std::int64_t> own = rule.shape;
    std::replace(own.begin(), own.end(), std::int64_t{-1}, neurons_);
    own.insert(own.begin(), site_.experts);
    std::vector<std::int64_t> shared = own;
    shared[0] = 1;
    if (found->second != own && !(rule.may_be_shared && found->second == shared))
      refuse(fmt::format("`{}` is {}, not {}", rule.role, shape_text(found->second), shape_text(own)));
  }
}

BankShape RoleBank::shape() const {
  BankShape shape;
  shape.neurons = neurons_;
  for (const auto& rule : roles_of(site_)) {
    if (!has(rule.role))
      shape.absent.push_back(rule.role);
    else if (site_.experts > 1 && first_dimension(rule.role) == 1)
      shape.shared.push_back(rule.role);
  }
  return shape;
}

bool RoleBank::has(std::string_view role) const { return shapes_.count(std::string(role)) > 0; }

std::int64_t RoleBank::first_dimension(const std::string& role) const {
  const auto found = shapes_.find(role);
  return found == shapes_.end() ? 0 : found->second[0];
}

at::Tensor RoleBank::weight(std::string_view role) const {
  at::Tensor value = maybe(role, nullptr);
  if (!value.defined()) throw std::out_of_range("this bank has no role " + std::string(role));
  return value;
}

at::Tensor RoleBank::maybe(std::string_view name, const std::vector<std::int64_t>* which) const {
  const std::string role(name);
  const auto found = shapes_.find(role);
  if (found == shapes_.end()) return {};
  const auto stored = stored_.find(role);
  if (stored != stored_.end()) {
    const at::Tensor& value = *stored->second;
    if (which == nullptr || value.size(0) != site_.experts || value.size(0) == 1) return value;
    return value.index_select(0, at::tensor(*which, at::kLong));
  }
  std::vector<std::int64_t> all;
  if (which == nullptr) {
    all.resize(static_cast<std::size_t>(site_.experts));
    std::iota(all.begin(), all.end(), 0);
    which = &all;
  }
  at::Tensor value = call("weight", *constructor_, [&] { return constructor_->as<ExpertConstructor>().weight(role, *which); });
  std::vector<std::int64_t> expected = found->second;
  if (expected[0] != 1 || site_.experts == 1) expected[0] = static_cast<std::int64_t>(which->size());
  if (!value.defined() || value.sizes() != at::IntArrayRef(expected))
    throw ComponentFailure(constructor_->name, "weight",
                           fmt::format("gives `{}` in another shape than {}", role, shape_text(expected)));
  return value;
}

}  // namespace moiety::engine
