#include "kernel/engine/layers/gate.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernel/engine/plugins/guard.h"

namespace moiety::engine {
namespace {

std::string sizes_text(at::IntArrayRef sizes) { return fmt::format("[{}]", fmt::join(sizes.begin(), sizes.end(), ", ")); }

}  // namespace

bool all_finite(const at::Tensor& tensor) { return at::isfinite(tensor.detach()).all().item<bool>(); }

at::Tensor gate_of(const Routing& routing, std::int64_t rows, std::int64_t experts, const at::Tensor& hidden,
                   const char* router) {
  const auto refuse = [router](const std::string& what) { throw ComponentFailure(router, "route", what); };
  const at::Tensor &chosen = routing.experts, &weights = routing.weights;
  if (chosen.defined()) {
    if (chosen.scalar_type() != at::kLong) refuse(fmt::format("experts are {}, not int64", c10::toString(chosen.scalar_type())));
    if (chosen.dim() != 2 || chosen.size(0) != rows)
      refuse(fmt::format("experts are {}, not [{}, k]", sizes_text(chosen.sizes()), rows));
    if (chosen.numel() > 0) {
      const auto low = chosen.min().item<std::int64_t>(), high = chosen.max().item<std::int64_t>();
      if (low < -1 || high >= experts) refuse(fmt::format("expert {} of {} was chosen", low < -1 ? low : high, experts));
    }
  }
  if (weights.defined()) {
    const std::int64_t columns = chosen.defined() ? chosen.size(1) : experts;
    if (weights.dim() != 2 || weights.size(0) != rows || weights.size(1) != columns)
      refuse(fmt::format("weights are {}, not [{}, {}]", sizes_text(weights.sizes()), rows, columns));
    if (!at::isFloatingType(weights.scalar_type()))
      refuse(fmt::format("weights are {}, not floating-point", c10::toString(weights.scalar_type())));
    if (!all_finite(weights) && all_finite(hidden)) refuse("weights are not finite although the input is");
  }
  if (!chosen.defined()) return weights.defined() ? weights.to(hidden.scalar_type()) : at::Tensor();
  // An empty place (−1) goes to a column of its own, which is cut off.
  const at::Tensor places = chosen.remainder(experts + 1);
  const at::Tensor values = weights.defined() ? weights.to(hidden.scalar_type()) : at::ones(chosen.sizes(), hidden.options());
  return at::zeros({rows, experts + 1}, hidden.options()).scatter_add(1, places, values).narrow(1, 0, experts);
}

at::Tensor within_capacity(const at::Tensor& chosen, std::int64_t experts, std::int64_t capacity, const at::Tensor& priority,
                           std::int64_t& dropped) {
  const at::Tensor kept = chosen.clone();
  const std::int64_t rows = chosen.size(0), k = chosen.size(1);
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows)), taken(static_cast<std::size_t>(experts));
  std::iota(order.begin(), order.end(), 0);
  if (priority.defined()) {
    const at::Tensor values = priority.detach().to(at::kDouble).contiguous();
    const double* p = values.data_ptr<double>();
    std::stable_sort(order.begin(), order.end(), [p](std::int64_t a, std::int64_t b) { return p[a] > p[b]; });
  }
  auto* place = kept.data_ptr<std::int64_t>();
  for (std::int64_t rank = 0; rank < k; ++rank) {
    for (const std::int64_t row : order) {
      std::int64_t& expert = place[row * k + rank];
      if (expert < 0 || taken[static_cast<std::size_t>(expert)]++ < capacity) continue;
      expert = -1;
      ++dropped;
    }
  }
  return kept;
}

}  // namespace moiety::engine
