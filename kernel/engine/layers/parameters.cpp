#include "kernel/engine/layers/parameters.h"

#include <ATen/ATen.h>

#include <cmath>
#include <stdexcept>

namespace moiety::engine {

std::int64_t ParameterStore::Entry::size() const {
  std::int64_t n = 1;
  for (const std::int64_t side : spec.shape) n *= side;
  return n;
}

Weight ParameterStore::declare(const std::string& name, Spec spec) {
  if (allocated()) throw std::invalid_argument("tensor " + name + " is declared too late");
  if (const Entry* known = find(name)) {
    if (spec.shared && known->spec.shared && known->spec.shape == spec.shape) return Weight(known->tensor);
    throw std::invalid_argument("tensor " + name + " is declared twice");
  }
  for (const std::int64_t side : spec.shape)
    if (side < 0) throw std::invalid_argument("tensor " + name + " has a negative size");
  Entry entry;
  entry.name = name;
  entry.spec = std::move(spec);
  entry.tensor = std::make_shared<at::Tensor>();
  entries_.push_back(entry);
  return Weight(entry.tensor);
}

void ParameterStore::allocate() { lay_out(); }

void ParameterStore::lay_out() {
  constexpr std::int64_t alignment = 16;
  std::int64_t size = 0, trained = 0;
  segments_.clear();
  for (const bool trains : {true, false}) {
    for (Entry& entry : entries_) {
      if (entry.spec.trains != trains) continue;
      entry.offset = size;
      size += (entry.size() + alignment - 1) / alignment * alignment;
      if (!trains) continue;
      if (segments_.empty() || segments_.back().decays != entry.spec.decays)
        segments_.push_back({entry.offset, size, entry.spec.decays});
      segments_.back().end = size;
    }
    if (trains) trained = size;
  }
  values_ = at::zeros({size}, at::TensorOptions(type_));
  gradient_ = at::zeros({trained}, at::TensorOptions(type_));
  // Tensors of their own over the flat memory, not views: a view would share one version counter with all others.
  const auto over = [this](const at::Tensor& flat, const Entry& entry) {
    char* begin = static_cast<char*>(flat.data_ptr()) + entry.offset * static_cast<std::int64_t>(flat.element_size());
    return at::from_blob(
        begin, entry.spec.shape, [flat](void*) {}, at::TensorOptions(type_));
  };
  for (Entry& entry : entries_) {
    *entry.tensor = over(values_, entry);
    if (!entry.spec.trains) continue;
    entry.tensor->requires_grad_(true);
    entry.tensor->mutable_grad() = over(gradient_, entry);
  }
}

void ParameterStore::train_only(const Which& trained, const Which& adapted, LowRank rank, const Random& random) {
  const at::NoGradGuard no_gradient;
  std::vector<at::Tensor> values;
  for (const Entry& entry : entries_) values.push_back(entry.tensor->detach().clone());
  const std::size_t own = entries_.size();
  for (std::size_t i = 0; i < own; ++i) {
    const bool trains = entries_[i].spec.trains;
    const bool through_adapter = trains && adapted && adapted(entries_[i]);
    entries_[i].spec.trains = trains && !through_adapter && trained(entries_[i]);
    if (!through_adapter) continue;
    const Spec of = entries_[i].spec;
    const std::string name = entries_[i].name;
    std::vector<std::int64_t> a = of.shape, b = of.shape;
    a[a.size() - 2] = rank.rank;
    b.back() = rank.rank;
    const double deviation = 1 / std::sqrt(static_cast<double>(of.shape.back()));
    declare_adapter("lora." + name + ".a", spec("", std::move(a)).normal(deviation));
    declare_adapter("lora." + name + ".b", spec("", std::move(b)));
    adapters_.push_back({i, entries_.size() - 2, entries_.size() - 1, rank.alpha / static_cast<double>(rank.rank)});
  }
  lay_out();
  for (std::size_t i = 0; i < own; ++i) entries_[i].tensor->copy_(values[i]);
  for (const Adapter& adapter : adapters_) {
    entries_[adapter.entry].base = *entries_[adapter.entry].tensor;
    initialise(entries_[adapter.a], random);
    initialise(entries_[adapter.b], random);
  }
  refresh();
}

void ParameterStore::declare_adapter(const std::string& name, Spec spec) {
  Entry entry;
  entry.name = name;
  entry.spec = std::move(spec);
  entry.tensor = std::make_shared<at::Tensor>();
  entry.adapter = true;
  entries_.push_back(std::move(entry));
}

void ParameterStore::refresh() const {
  for (const Adapter& adapter : adapters_) {
    const at::Tensor &a = *entries_[adapter.a].tensor, &b = *entries_[adapter.b].tensor;
    const Entry& entry = entries_[adapter.entry];
    *entry.tensor = entry.base + at::matmul(b, a) * adapter.scale;
  }
}

void ParameterStore::initialise(const Entry& entry, const Random& random) {
  const at::NoGradGuard no_gradient;
  at::Tensor values = at::full(entry.spec.shape, entry.spec.constant, at::TensorOptions(at::kDouble));
  if (entry.spec.deviation > 0) {
    Random stream = random.fork(entry.name);
    double* p = values.data_ptr<double>();
    for (std::int64_t i = 0; i < values.numel(); ++i) p[i] += entry.spec.deviation * stream.normal();
  }
  entry.tensor->copy_(values);
}

void ParameterStore::initialise(const Random& random) {
  for (const Entry& entry : entries_) initialise(entry, random);
}

const ParameterStore::Entry* ParameterStore::find(const std::string& name) const {
  for (const Entry& entry : entries_)
    if (entry.name == name) return &entry;
  return nullptr;
}

std::int64_t ParameterStore::total() const {
  std::int64_t n = 0;
  for (const Entry& entry : entries_) n += entry.adapter ? 0 : entry.size();
  return n;
}

std::int64_t ParameterStore::trainable() const {
  std::int64_t n = 0;
  for (const Entry& entry : entries_) n += entry.spec.trains ? entry.size() : 0;
  return n;
}

void ParameterStore::zero_gradient() {
  const at::NoGradGuard no_gradient;
  gradient_.zero_();
}

}  // namespace moiety::engine
