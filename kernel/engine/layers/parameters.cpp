#include "kernel/engine/layers/parameters.h"

#include <ATen/ATen.h>

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
  Entry entry{name, std::move(spec), std::make_shared<at::Tensor>(), 0};
  entries_.push_back(entry);
  return Weight(entry.tensor);
}

void ParameterStore::allocate() {
  constexpr std::int64_t alignment = 16;
  std::int64_t size = 0, trained = 0;
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
  for (const Entry& entry : entries_) n += entry.size();
  return n;
}

void ParameterStore::zero_gradient() {
  const at::NoGradGuard no_gradient;
  gradient_.zero_();
}

}  // namespace moiety::engine
