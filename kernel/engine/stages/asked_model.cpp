#include "kernel/engine/stages/asked_model.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstring>
#include <stdexcept>

namespace moiety::engine {
namespace {

constexpr std::int64_t windows_at_once = 16;

bool begins(const std::string& text, const std::string& with) { return text.compare(0, with.size(), with) == 0; }

/// [n] double; 1/n each where none are given.
at::Tensor weights_of(const Windows& windows, const at::Tensor& given) {
  const auto n = static_cast<std::int64_t>(windows.size());
  if (n == 0) throw std::invalid_argument("no window was named");
  if (!given.defined()) return at::full({n}, 1.0 / static_cast<double>(n), at::kDouble);
  if (given.dim() != 1 || given.size(0) != n) throw std::invalid_argument("there is not one weight for each window");
  return given.to(at::kDouble);
}

/// Gradients of `loss` as one vector; zero where it does not depend on a tensor.
at::Tensor flat_gradient(const at::Tensor& loss, const std::vector<at::Tensor>& parameters, bool differentiable) {
  std::vector<at::Tensor> flat;
  if (!loss.requires_grad()) {
    for (const at::Tensor& tensor : parameters) flat.push_back(at::zeros({tensor.numel()}, tensor.options()));
    return at::cat(flat);
  }
  const auto gradients = torch::autograd::grad({loss}, parameters, {}, differentiable, differentiable, true);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    flat.push_back(gradients[i].defined() ? gradients[i].reshape({-1})
                                          : at::zeros({parameters[i].numel()}, parameters[i].options().requires_grad(false)));
  return at::cat(flat);
}

/// Adds an offset to tensors, through their memory: no version counter moves, and the old bits come back whatever happens.
class Displacement {
 public:
  Displacement(const std::vector<at::Tensor>& tensors, const at::Tensor& offset) : tensors_(tensors) {
    std::int64_t at = 0;
    for (const at::Tensor& tensor : tensors_) {
      old_.push_back(tensor.detach().clone());
      const at::Tensor moved = old_.back() + offset.narrow(0, at, tensor.numel()).view(tensor.sizes()).to(tensor.scalar_type());
      write(tensor, moved.contiguous());
      at += tensor.numel();
    }
  }
  ~Displacement() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) write(tensors_[i], old_[i]);
  }
  Displacement(const Displacement&) = delete;
  Displacement& operator=(const Displacement&) = delete;

 private:
  static void write(const at::Tensor& to, const at::Tensor& from) {
    std::memcpy(to.data_ptr(), from.data_ptr(), static_cast<std::size_t>(to.numel()) * to.element_size());
  }
  std::vector<at::Tensor> tensors_, old_;
};

}  // namespace

AskedModel::AskedModel(const Gpt& model, const WindowPool& pool, const WindowLabels& labels,
                       std::function<at::Tensor()> preconditioner)
    : model_(model), pool_(pool), labels_(labels), preconditioner_(std::move(preconditioner)) {}

AskedModel::Entries AskedModel::entries(const std::string& scope) const {
  Entries chosen;
  for (const auto& entry : model_.parameters().entries()) {
    const bool in = scope == "all"    ? true
                    : scope == "body" ? !begins(entry.name, "embedding.")
                                      : entry.name == scope || begins(entry.name, scope + ".");
    if (in && entry.spec.trains) chosen.push_back(&entry);
  }
  if (chosen.empty()) throw std::invalid_argument("the model trains nothing in the scope \"" + scope + "\"");
  return chosen;
}

std::vector<at::Tensor> AskedModel::parameters(const Entries& entries) const {
  std::vector<at::Tensor> list;
  for (const auto* entry : entries) list.push_back(*entry->tensor);
  return list;
}

std::vector<std::string> AskedModel::tensors(const std::string& scope) const {
  std::vector<std::string> names;
  for (const auto* entry : entries(scope)) names.push_back(entry->name);
  return names;
}

std::int64_t AskedModel::size(const std::string& scope) const {
  std::int64_t numbers = 0;
  for (const auto* entry : entries(scope)) numbers += entry->size();
  return numbers;
}

at::Tensor AskedModel::token_losses(const Windows& windows) const {
  const at::NoGradGuard no_gradient;
  std::vector<at::Tensor> losses;
  const auto n = static_cast<std::int64_t>(windows.size());
  for (std::int64_t first = 0; first < n; first += windows_at_once) {
    const FixedWindows places = pool_.locate({windows.begin() + first, windows.begin() + std::min(n, first + windows_at_once)});
    const WindowBatch packed = pack_windows(pool_.streams, pool_.context, places);
    losses.push_back(token_losses_of(model_, labels_)(packed.batch, packed.targets, places).view({-1, pool_.context}));
    forward_tokens_ += static_cast<double>(packed.targets.numel());
  }
  return losses.empty() ? at::empty({0, pool_.context}) : at::cat(losses);
}

at::Tensor AskedModel::weighted_loss(const Windows& windows, std::int64_t first, std::int64_t count, const at::Tensor& weights,
                                     bool twice) const {
  const FixedWindows places = pool_.locate({windows.begin() + first, windows.begin() + first + count});
  const WindowBatch packed = pack_windows(pool_.streams, pool_.context, places);
  ForwardContext forward;
  forward.twice = twice;
  labels_.tell(places, forward);
  const at::Tensor hidden = model_.hidden(packed.batch, forward);
  const at::Tensor logits = model_.read_out(hidden, forward.expert_of_row, twice);
  const at::Tensor losses = at::nll_loss(at::log_softmax(logits, 1), packed.targets, {}, at::Reduction::None);
  return losses.view({count, pool_.context}).mean(1).dot(weights.narrow(0, first, count).to(losses.scalar_type()));
}

at::Tensor AskedModel::gradient(const Windows& windows, const at::Tensor& weights, const std::string& scope) const {
  const at::AutoGradMode with_gradient(true);
  const std::vector<at::Tensor> chosen = parameters(entries(scope));
  const at::Tensor w = weights_of(windows, weights);
  at::Tensor sum;
  const auto n = static_cast<std::int64_t>(windows.size());
  for (std::int64_t first = 0; first < n; first += windows_at_once) {
    const std::int64_t count = std::min(n - first, windows_at_once);
    const at::Tensor part = flat_gradient(weighted_loss(windows, first, count, w, false), chosen, false);
    sum = sum.defined() ? sum + part : part;
    forward_tokens_ += 3 * static_cast<double>(count * pool_.context);
  }
  return sum;
}

at::Tensor AskedModel::example_gradients(const Windows& windows, const std::string& scope) const {
  std::vector<at::Tensor> rows;
  for (const std::int64_t window : windows) rows.push_back(gradient({window}, at::Tensor(), scope));
  return rows.empty() ? at::empty({0, size(scope)}) : at::stack(rows);
}

at::Tensor AskedModel::hessian_product(const Windows& windows, const at::Tensor& weights, const at::Tensor& v,
                                       const std::string& scope) const {
  const at::AutoGradMode with_gradient(true);
  const std::vector<at::Tensor> chosen = parameters(entries(scope));
  const at::Tensor w = weights_of(windows, weights);
  if (v.dim() != 1 || v.size(0) != size(scope)) throw std::invalid_argument("the vector is not as long as the scope has numbers");
  const at::Tensor direction = v.detach().to(chosen.front().scalar_type());
  at::Tensor sum;
  const auto n = static_cast<std::int64_t>(windows.size());
  for (std::int64_t first = 0; first < n; first += windows_at_once) {
    const std::int64_t count = std::min(n - first, windows_at_once);
    const at::Tensor slope = flat_gradient(weighted_loss(windows, first, count, w, true), chosen, true).dot(direction);
    const at::Tensor part = flat_gradient(slope, chosen, false);
    sum = sum.defined() ? sum + part : part;
    forward_tokens_ += 9 * static_cast<double>(count * pool_.context);
  }
  return sum;
}

at::Tensor AskedModel::preconditioner(const std::string& scope) const {
  if (!preconditioner_) return {};
  const at::Tensor all = preconditioner_();
  if (!all.defined()) return {};
  std::vector<at::Tensor> parts;
  for (const auto* entry : entries(scope)) parts.push_back(all.narrow(0, entry->offset, entry->size()));
  return at::cat(parts);
}

double AskedModel::displaced_loss(const Windows& windows, const at::Tensor& offset, const std::string& scope) const {
  const at::NoGradGuard no_gradient;
  if (offset.dim() != 1 || offset.size(0) != size(scope))
    throw std::invalid_argument("the offset is not as long as the scope has numbers");
  const Displacement displaced(parameters(entries(scope)), offset.detach());
  return token_losses(windows).to(at::kDouble).mean().item<double>();
}

}  // namespace moiety::engine
