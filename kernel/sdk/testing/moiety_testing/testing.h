// For unit tests of plugins: makes components through the plugin's descriptor, as the loader does, and stands in for the engine.
// The test is linked with the plugin's own objects.
//
//   auto router = moiety::testing::make<moiety::Router>("top-k", {{"k", std::int64_t{2}}});
#ifndef MOIETY_TESTING_TESTING_H_
#define MOIETY_TESTING_TESTING_H_

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "moiety/activations.h"
#include "moiety/archive.h"
#include "moiety/plugin.h"
#include "moiety/random.h"
#include "moiety/router.h"
#include "moiety/weights.h"

namespace moiety::testing {

inline const ComponentEntry& entry(std::string_view name) {
  for (std::size_t i = 0; i < moiety_plugin_v1.component_count; ++i) {
    if (name == moiety_plugin_v1.components[i].name) return moiety_plugin_v1.components[i];
  }
  throw std::invalid_argument("the plugin has no component " + std::string(name));
}

/// The component with its declared defaults, but for what `given` says. Parts and lists are given or left out.
template <class Kind>
std::unique_ptr<Kind> make(std::string_view name, std::map<std::string, Value> given = {}) {
  const ComponentEntry& e = entry(name);
  if (std::string_view(e.kind) != Kind::kind) throw std::invalid_argument("not a " + std::string(Kind::kind));
  std::vector<Value> values;
  for (std::size_t i = 0; i < e.parameter_count; ++i) {
    const Parameter& p = e.parameters[i];
    if (auto found = given.find(p.name); found != given.end()) {
      values.push_back(std::move(found->second));
      given.erase(found);
      continue;
    }
    switch (p.fallback.kind) {
      case Default::Kind::boolean:
        values.emplace_back(p.fallback.boolean);
        break;
      case Default::Kind::integer:
        values.emplace_back(p.fallback.integer);
        break;
      case Default::Kind::number:
        values.emplace_back(p.fallback.number);
        break;
      case Default::Kind::text:
        if (p.type == ParameterType::text) {
          values.emplace_back(std::string(p.fallback.text));
          break;
        }
        throw std::invalid_argument(std::string(p.name) + " must be given in a test");
      case Default::Kind::none:
        values.emplace_back();
        break;
      case Default::Kind::absent:
        throw std::invalid_argument(std::string(p.name) + " is required");
    }
  }
  if (!given.empty()) throw std::invalid_argument("no parameter " + given.begin()->first);
  return std::unique_ptr<Kind>(static_cast<Kind*>(e.make(values.data())));
}

/// What check() finds, each problem as "parameter: message", one a line.
inline std::string problems_of(const Component& component, const Facts& facts) {
  Problems problems;
  component.check(facts, problems);
  std::string text;
  for (const Problems::Problem& problem : problems.list())
    text += (text.empty() ? "" : "\n") + problem.parameter + ": " + problem.message;
  return text;
}

/// A float tensor of these numbers.
inline at::Tensor tensor(std::vector<double> numbers, const std::vector<std::int64_t>& shape) {
  return at::from_blob(numbers.data(), shape, at::TensorOptions().dtype(at::kDouble)).to(at::kFloat, false, true);
}

/// A float tensor of independent normal numbers.
inline at::Tensor normal(const std::vector<std::int64_t>& shape, Random random, double deviation = 1) {
  std::int64_t size = 1;
  for (const std::int64_t n : shape) size *= n;
  std::vector<double> numbers(static_cast<std::size_t>(size));
  for (double& number : numbers) number = deviation * random.normal();
  return tensor(std::move(numbers), shape);
}

/// Owns declared tensors. `weight(name)` may be assigned to.
class TestParameters final : public Parameters {
 public:
  explicit TestParameters(Random random = Random(0)) : random_(random) {}
  Weight add(Spec spec) override {
    auto tensor = std::make_shared<at::Tensor>(normal(spec.shape, random_.fork(spec.name), spec.deviation).add_(spec.constant));
    if (spec.trains) tensor->requires_grad_();
    tensors_[spec.name] = tensor;
    order_.push_back(spec);
    return Weight(tensor);
  }
  at::Tensor& weight(const std::string& name) { return *tensors_.at(name); }
  const std::vector<Spec>& specs() const { return order_; }

 private:
  Random random_;
  std::map<std::string, std::shared_ptr<at::Tensor>> tensors_;
  std::vector<Spec> order_;
};

/// Recorded inputs [windows, L, d].
class TestActivations final : public Activations {
 public:
  explicit TestActivations(at::Tensor inputs, std::int64_t dimensions = 0)
      : inputs_(std::move(inputs)), dimensions_(dimensions) {}
  std::int64_t windows() const override { return inputs_.size(0); }
  at::Tensor read(std::int64_t begin, std::int64_t end) const override { return inputs_.narrow(0, begin, end - begin); }
  std::int64_t dimensions() const override { return dimensions_; }

 private:
  at::Tensor inputs_;
  std::int64_t dimensions_;
};

/// Experts by role.
class TestBank final : public Bank {
 public:
  explicit TestBank(TensorMap tensors) : tensors_(std::move(tensors)) {}
  std::int64_t experts() const override { return tensors_.at("in").size(0); }
  bool has(std::string_view role) const override { return tensors_.count(std::string(role)) != 0; }
  at::Tensor weight(std::string_view role) const override { return tensors_.at(std::string(role)); }
  at::Tensor keys() const override { return tensors_.at("in"); }
  at::Tensor& tensor(const std::string& role) { return tensors_.at(role); }

 private:
  TensorMap tensors_;
};

/// Keeps a component's state in memory: write, then `rewind()`, then read.
class TestArchive final : public Archive {
 public:
  bool reading() const override { return reading_; }
  void rewind() { reading_ = true; }
  void operator()(std::string_view name, at::Tensor& value) override { move(name, value, tensors_); }
  void operator()(std::string_view name, std::int64_t& value) override { move(name, value, integers_); }
  void operator()(std::string_view name, double& value) override { move(name, value, numbers_); }
  void operator()(std::string_view name, std::vector<std::int64_t>& value) override { move(name, value, integer_lists_); }
  void operator()(std::string_view name, std::vector<double>& value) override { move(name, value, number_lists_); }

 private:
  template <class T>
  void move(std::string_view name, T& value, std::map<std::string, T>& where) {
    if (reading_)
      value = where.at(std::string(name));
    else
      where[std::string(name)] = value;
  }
  bool reading_ = false;
  std::map<std::string, at::Tensor> tensors_;
  std::map<std::string, std::int64_t> integers_;
  std::map<std::string, double> numbers_;
  std::map<std::string, std::vector<std::int64_t>> integer_lists_;
  std::map<std::string, std::vector<double>> number_lists_;
};

}  // namespace moiety::testing

#endif  // MOIETY_TESTING_TESTING_H_
