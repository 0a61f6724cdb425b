#include "kernel/engine/layers/rotary.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernel/engine/numerics/clones.h"
#include "kernel/engine/numerics/lanes.h"

namespace moiety::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

double rotary_frequency(std::int64_t i, std::int64_t head_width) {
  return std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(head_width));
}

MOIETY_CLONES void turn_head(const float* in, const float* cosines, const float* sines, float* out, std::int64_t half) {
  for (std::int64_t i = 0; i < half; ++i) {
    out[i] = in[i] * cosines[i] - in[half + i] * sines[i];
    out[half + i] = in[half + i] * cosines[i] + in[i] * sines[i];
  }
}

/// Sines are multiplied by `sign`: −1 turns back.
at::Tensor turned(const at::Tensor& x, const at::Tensor& positions, std::int64_t columns, std::int64_t head_width, float sign) {
  const std::int64_t rows = x.size(0), width = x.size(1), half = head_width / 2, heads = columns / head_width;
  const auto* place = positions.data_ptr<std::int64_t>();
  std::int64_t last = 0;
  for (std::int64_t r = 0; r < rows; ++r) last = std::max(last, place[r]);
  std::vector<float> cosines(static_cast<std::size_t>((last + 1) * half)), sines(cosines.size());
  for (std::int64_t i = 0; i < half; ++i) {
    const double frequency = rotary_frequency(i, head_width);
    for (std::int64_t p = 0; p <= last; ++p) {
      const double angle = static_cast<double>(p) * frequency;
      cosines[static_cast<std::size_t>(p * half + i)] = static_cast<float>(std::cos(angle));
      sines[static_cast<std::size_t>(p * half + i)] = sign * static_cast<float>(std::sin(angle));
    }
  }
  const at::Tensor y = at::empty_like(x);
  const float* from = x.data_ptr<float>();
  float* to = y.data_ptr<float>();
  in_lanes(rows, lanes_for(rows), [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float *c = cosines.data() + place[r] * half, *s = sines.data() + place[r] * half, *in = from + r * width;
      float* out = to + r * width;
      for (std::int64_t head = 0; head < heads; ++head, in += head_width, out += head_width) turn_head(in, c, s, out, half);
      std::memcpy(out, in, static_cast<std::size_t>(width - columns) * sizeof(float));
    }
  });
  return y;
}

class RotaryNode : public Function<RotaryNode> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& positions, std::int64_t columns,
                            std::int64_t head_width) {
    context->save_for_backward({positions});
    context->saved_data["columns"] = columns;
    context->saved_data["head_width"] = head_width;
    return turned(x, positions, columns, head_width, 1);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "this rotation cannot be differentiated twice; use plain_rotary");
    return {turned(gradients[0].contiguous(), context->get_saved_variables()[0], context->saved_data["columns"].toInt(),
                   context->saved_data["head_width"].toInt(), -1),
            at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor positions_of(const Spans& spans) {
  at::Tensor positions = at::empty({spans.rows()}, at::kLong);
  auto* place = positions.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < spans.count(); ++i)
    for (std::int64_t r = 0; r < spans.length(i); ++r) place[spans.begin(i) + r] = r;
  return positions;
}

at::Tensor plain_rotary(const at::Tensor& x, const at::Tensor& positions, std::int64_t columns, std::int64_t head_width) {
  const std::int64_t rows = x.size(0), half = head_width / 2;
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < half; ++i) frequencies.push_back(rotary_frequency(i, head_width));
  const at::Tensor angles = at::outer(positions.to(at::kDouble), at::tensor(frequencies, at::kDouble));
  const at::Tensor c = at::cos(angles).to(x.scalar_type()).unsqueeze(1), s = at::sin(angles).to(x.scalar_type()).unsqueeze(1);
  const at::Tensor heads = x.narrow(1, 0, columns).reshape({rows, columns / head_width, head_width});
  const at::Tensor a = heads.narrow(2, 0, half), b = heads.narrow(2, half, half);
  const at::Tensor rotated = at::cat({a * c - b * s, b * c + a * s}, 2).reshape({rows, columns});
  return columns == x.size(1) ? rotated : at::cat({rotated, x.narrow(1, columns, x.size(1) - columns)}, 1);
}

at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, std::int64_t columns, std::int64_t head_width) {
  TORCH_CHECK(x.dim() == 2 && positions.dim() == 1 && positions.size(0) == x.size(0) && head_width % 2 == 0 &&
                  columns % head_width == 0 && columns <= x.size(1),
              "rotary: x ", x.sizes(), ", ", columns, " columns in heads of ", head_width);
  if (x.scalar_type() != at::kFloat) return plain_rotary(x, positions, columns, head_width);
  if (!at::GradMode::is_enabled()) return turned(x.contiguous(), positions, columns, head_width, 1);
  return RotaryNode::apply(x.contiguous(), positions, columns, head_width);
}

}  // namespace moiety::engine
