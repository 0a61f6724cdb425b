#include "kernel/engine/layers/norm.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <cstring>

#include "kernel/engine/numerics/clones.h"
#include "kernel/engine/numerics/lanes.h"
#include "kernel/engine/numerics/rows.h"

namespace moiety::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr double epsilon = 1e-5;

MOIETY_CLONES void scaled(const float* row, float factor, const float* gain, float* out, std::int64_t d) {
  for (std::int64_t i = 0; i < d; ++i) out[i] = row[i] * factor * gain[i];
}

/// out = dy ⊙ gain; sum += dy ⊙ h, h = row · factor.
MOIETY_CLONES void towards_gain(const float* row, float factor, const float* gain, const float* dy, float* sum, float* out,
                                std::int64_t d) {
  for (std::int64_t i = 0; i < d; ++i) {
    sum[i] += dy[i] * row[i] * factor;
    out[i] = dy[i] * gain[i];
  }
}

/// out = factor · (out − h · mean).
MOIETY_CLONES void towards_row(const float* row, float factor, float mean, float* out, std::int64_t d) {
  for (std::int64_t i = 0; i < d; ++i) out[i] = factor * (out[i] - row[i] * factor * mean);
}

/// `factors` [R] keeps 1 / √(mean(x²) + ε), or is null.
at::Tensor normed(const at::Tensor& x, const at::Tensor& gain, float* factors) {
  const std::int64_t rows = x.size(0), d = x.size(1);
  at::Tensor y = at::empty_like(x);
  const float *px = x.data_ptr<float>(), *pg = gain.data_ptr<float>();
  float* py = y.data_ptr<float>();
  in_lanes(rows, lanes_for(rows), [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* row = px + r * d;
      const float mean = dot(row, row, d) / static_cast<float>(d), factor = 1.0F / std::sqrt(mean + static_cast<float>(epsilon));
      if (factors != nullptr) factors[r] = factor;
      scaled(row, factor, pg, py + r * d, d);
    }
  });
  return y;
}

class RmsNode : public Function<RmsNode> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& gain) {
    const at::Tensor factors = at::empty({x.size(0)}, x.options());
    context->save_for_backward({x, gain, factors});
    return normed(x, gain, factors.data_ptr<float>());
  }

  /// With h = x f, u = dy ⊙ gain: dx = f (u − h mean(u ⊙ h)), d_gain = Σ_rows dy ⊙ h.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "this norm cannot be differentiated twice; use plain_rms_norm");
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &gain = saved[1], dy = gradients[0].contiguous();
    const std::int64_t rows = x.size(0), d = x.size(1), lanes = lanes_for(rows);
    at::Tensor dx = at::empty_like(x), d_gain = at::empty_like(gain);
    const float *px = x.data_ptr<float>(), *pg = gain.data_ptr<float>(), *factors = saved[2].data_ptr<float>(),
                *pdy = dy.data_ptr<float>();
    float* pdx = dx.data_ptr<float>();
    LaneSums sums(lanes, d);
    in_lanes(rows, lanes, [&](std::int64_t lane, std::int64_t begin, std::int64_t end) {
      float* sum = sums.of(lane);
      for (std::int64_t r = begin; r < end; ++r) {
        const float* row = px + r * d;
        float* out = pdx + r * d;
        towards_gain(row, factors[r], pg, pdy + r * d, sum, out, d);
        towards_row(row, factors[r], dot(out, row, d) * factors[r] / static_cast<float>(d), out, d);
      }
    });
    std::memcpy(d_gain.data_ptr<float>(), sums.total(), static_cast<std::size_t>(d) * sizeof(float));
    return {dx, d_gain};
  }
};

}  // namespace

at::Tensor plain_rms_norm(const at::Tensor& x, const at::Tensor& gain) {
  return x * at::rsqrt(x.square().mean(1, /*keepdim=*/true) + epsilon) * gain;
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gain) {
  TORCH_CHECK(x.dim() == 2 && gain.dim() == 1 && gain.size(0) == x.size(1), "RMS norm: x ", x.sizes(), ", gain ", gain.sizes());
  if (x.scalar_type() != at::kFloat) return plain_rms_norm(x, gain);
  const at::Tensor cx = x.contiguous();
  return at::GradMode::is_enabled() ? RmsNode::apply(cx, gain) : normed(cx, gain, nullptr);
}

}  // namespace moiety::engine
