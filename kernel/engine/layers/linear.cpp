#include "kernel/engine/layers/linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstring>

#include "kernel/engine/numerics/lanes.h"
#include "kernel/engine/numerics/matrix.h"

namespace moiety::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::int64_t block = 256;

at::Tensor compute(const at::Tensor& x, const at::Tensor& weight, const c10::optional<at::Tensor>& bias) {
  const std::int64_t rows = x.size(0), n = x.size(1), m = weight.size(0);
  at::Tensor y = at::empty({rows, m}, x.options());
  const float *px = x.data_ptr<float>(), *pw = weight.data_ptr<float>(), *pb = bias ? bias->data_ptr<float>() : nullptr;
  float* py = y.data_ptr<float>();
  in_row_blocks(rows, block, lanes_for((rows + block - 1) / block), [&](std::int64_t, std::int64_t first, std::int64_t count) {
    float* out = py + first * m;
    if (pb != nullptr)
      for (std::int64_t r = 0; r < count; ++r) std::memcpy(out + r * m, pb, static_cast<std::size_t>(m) * sizeof(float));
    product(Form::plain, Form::transposed, count, m, n, {px + first * n, n}, {pw, n}, {out, m}, pb != nullptr ? 1.0F : 0.0F);
  });
  return y;
}

class Linear : public Function<Linear> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const c10::optional<at::Tensor>& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["bias"] = bias.has_value();
    return compute(x, weight, bias);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "this linear layer cannot be differentiated twice; use at::linear");
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], dy = gradients[0].contiguous();
    const bool has_bias = context->saved_data["bias"].toBool();
    const std::int64_t rows = x.size(0), n = x.size(1), m = weight.size(0);
    at::Tensor dx = at::empty_like(x), dw = at::empty_like(weight);
    const float *px = x.data_ptr<float>(), *pw = weight.data_ptr<float>(), *pdy = dy.data_ptr<float>();
    float* pdx = dx.data_ptr<float>();
    const std::int64_t lanes = lanes_for((rows + block - 1) / block);
    LaneSums sums(lanes, n * m), bias_sums(lanes, has_bias ? m : 0);  // of the weight's gradient, [n, m]
    const Scratch scratch(lanes * block * n);
    in_row_blocks(rows, block, lanes, [&](std::int64_t lane, std::int64_t first, std::int64_t count) {
      const float* d = pdy + first * m;
      float* turned = scratch.data() + lane * block * n;
      product(Form::plain, Form::plain, count, n, m, {d, m}, {pw, n}, {pdx + first * n, n});
      transpose(count, n, {px + first * n, n}, {turned, count});
      product(Form::plain, Form::plain, n, m, count, {turned, count}, {d, m}, {sums.of(lane), m}, 1);
      if (has_bias) {
        float* sum = bias_sums.of(lane);
        for (std::int64_t r = 0; r < count; ++r)
          for (std::int64_t j = 0; j < m; ++j) sum[j] += d[r * m + j];
      }
    });
    transpose(n, m, {sums.total(), m}, {dw.data_ptr<float>(), n});
    at::Tensor db;
    if (has_bias) {
      db = at::empty({m}, x.options());
      std::memcpy(db.data_ptr<float>(), bias_sums.total(), static_cast<std::size_t>(m) * sizeof(float));
    }
    return {dx, dw, db};
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (x.scalar_type() != at::kFloat || weight.scalar_type() != at::kFloat) return at::linear(x, weight, bias);
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1) &&
                  (!bias.defined() || bias.sizes() == weight.sizes().slice(0, 1)),
              "linear: x ", x.sizes(), ", weight ", weight.sizes());
  const auto optional_bias = bias.defined() ? c10::optional<at::Tensor>(bias.contiguous()) : c10::nullopt;
  if (!at::GradMode::is_enabled()) return compute(x.contiguous(), weight.contiguous(), optional_bias);
  return Linear::apply(x.contiguous(), weight.contiguous(), optional_bias);
}

}  // namespace moiety::engine
