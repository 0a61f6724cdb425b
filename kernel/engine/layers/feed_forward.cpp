#include "kernel/engine/layers/feed_forward.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstring>

#include "kernel/engine/numerics/lanes.h"
#include "kernel/engine/numerics/matrix.h"
#include "kernel/engine/numerics/rows.h"

namespace moiety::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using MaybeTensor = c10::optional<at::Tensor>;

constexpr std::int64_t block = 128;  // fewer rows: every product packs its matrix again; more: the neurons leave the cache

/// What both directions need to know.
struct Network {
  Activation activation;
  std::int64_t rows, width, inner, entering, stride, entering_stride, experts, each;  // strides: of rows that are ours
  const float *x, *in, *in_bias, *out, *out_bias, *gate;
};

const float* pointer(const MaybeTensor& tensor) { return tensor && tensor->defined() ? tensor->data_ptr<float>() : nullptr; }

Network network(const at::Tensor& x, const at::Tensor& in, const MaybeTensor& in_bias, const at::Tensor& out,
                const MaybeTensor& out_bias, const MaybeTensor& gate, Activation activation) {
  Network n{};
  n.activation = activation;
  n.rows = x.size(0);
  n.width = x.size(1);
  n.inner = out.size(1);
  n.entering = in.size(0);
  n.stride = padded(n.inner);
  n.entering_stride = padded(n.entering);
  n.x = x.data_ptr<float>();
  n.in = in.data_ptr<float>();
  n.in_bias = pointer(in_bias);
  n.out = out.data_ptr<float>();
  n.out_bias = pointer(out_bias);
  n.gate = pointer(gate);
  n.experts = n.gate != nullptr ? gate->size(1) : 1;
  n.each = n.inner / n.experts;
  return n;
}

/// The neurons of a row times the gates of their experts; exactly 0 where the gate is 0.
void apply_gate(const Network& n, const float* gates, float* neurons) {
  for (std::int64_t e = 0; e < n.experts; ++e) {
    if (gates[e] == 0.0F)
      std::fill_n(neurons + e * n.each, n.each, 0.0F);
    else if (gates[e] != 1.0F)
      scale_by(neurons + e * n.each, gates[e], n.each);
  }
}

/// `before` [rows, F or 2F] keeps what entered the activation, or is null.
at::Tensor run(const Network& n, const at::TensorOptions& options, float* before) {
  at::Tensor y = at::empty({n.rows, n.width}, options);
  float* py = y.data_ptr<float>();
  const std::int64_t lanes = lanes_for((n.rows + block - 1) / block), per_lane = block * (n.stride + n.entering_stride);
  const Scratch scratch(lanes * per_lane);
  in_row_blocks(n.rows, block, lanes, [&](std::int64_t lane, std::int64_t first, std::int64_t count) {
    float* after = scratch.data() + lane * per_lane;
    float* entering = before != nullptr ? before + first * n.entering_stride : after + block * n.stride;
    if (n.in_bias != nullptr) fill_rows(entering, n.in_bias, count, n.entering, n.entering_stride);
    product(Form::plain, Form::transposed, count, n.entering, n.width, {n.x + first * n.width, n.width}, {n.in, n.width},
            {entering, n.entering_stride}, n.in_bias != nullptr ? 1.0F : 0.0F);
    for (std::int64_t r = 0; r < count; ++r)
      activate(n.activation, entering + r * n.entering_stride, after + r * n.stride, n.inner);
    for (std::int64_t r = 0; r < count && n.gate != nullptr; ++r)
      apply_gate(n, n.gate + (first + r) * n.experts, after + r * n.stride);
    if (n.out_bias != nullptr) fill_rows(py + first * n.width, n.out_bias, count, n.width, n.width);
    product(Form::plain, Form::transposed, count, n.width, n.inner, {after, n.stride}, {n.out, n.inner},
            {py + first * n.width, n.width}, n.out_bias != nullptr ? 1.0F : 0.0F);
  });
  return y;
}

class Node : public Function<Node> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& in, const MaybeTensor& in_bias,
                            const at::Tensor& out, const MaybeTensor& out_bias, const MaybeTensor& gate,
                            std::int64_t activation) {
    const Network n = network(x, in, in_bias, out, out_bias, gate, static_cast<Activation>(activation));
    const at::Tensor before = at::empty({n.rows, n.entering_stride}, x.options());
    context->saved_data["activation"] = activation;
    context->save_for_backward({x, in, out, gate ? *gate : at::Tensor(), before});
    context->saved_data["gate_gradient"] = gate.has_value() && gate->requires_grad();
    context->saved_data["in_bias"] = in_bias.has_value();
    context->saved_data["out_bias"] = out_bias.has_value();
    return run(n, x.options(), before.data_ptr<float>());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "this feed-forward cannot be differentiated twice; use plain_feed_forward");
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &in = saved[1], &out = saved[2], &gate = saved[3], dy = gradients[0].contiguous();
    const bool has_in_bias = context->saved_data["in_bias"].toBool(), has_out_bias = context->saved_data["out_bias"].toBool();
    const auto activation = static_cast<Activation>(context->saved_data["activation"].toInt());
    const Network n = network(x, in, c10::nullopt, out, c10::nullopt, gate, activation);
    const float *before = saved[4].data_ptr<float>(), *pdy = dy.data_ptr<float>();
    at::Tensor dx = at::empty_like(x), d_in = at::empty_like(in), d_out = at::empty_like(out), d_gate;
    if (context->saved_data["gate_gradient"].toBool()) d_gate = at::empty_like(gate);
    float *pdx = dx.data_ptr<float>(), *pdg = d_gate.defined() ? d_gate.data_ptr<float>() : nullptr;

    const std::int64_t lanes = lanes_for((n.rows + block - 1) / block);
    LaneSums in_sums(lanes, n.width * n.entering_stride), out_sums(lanes, n.width * n.stride), in_bias_sums(lanes, n.entering),
        out_bias_sums(lanes, n.width);  // [d, F or 2F] and [d, F]
    const std::int64_t per_lane = block * (2 * n.stride + n.entering_stride + n.width);
    const Scratch scratch(lanes * per_lane);
    in_row_blocks(n.rows, block, lanes, [&](std::int64_t lane, std::int64_t first, std::int64_t count) {
      float *after = scratch.data() + lane * per_lane, *gradient = after + block * n.stride,
            *turned = gradient + block * n.stride,
            *into = n.entering == n.inner ? gradient : turned + block * n.width;  // in place where it can be
      const float* d = pdy + first * n.width;
      product(Form::plain, Form::plain, count, n.inner, n.width, {d, n.width}, {n.out, n.inner}, {gradient, n.stride});
      for (std::int64_t r = 0; r < count; ++r) {
        const float *entered = before + (first + r) * n.entering_stride,
                    *gates = n.gate != nullptr ? n.gate + (first + r) * n.experts : nullptr;
        float *a = after + r * n.stride, *g = gradient + r * n.stride, *d_entered = into + r * n.entering_stride;
        if (pdg != nullptr) {
          activate(n.activation, entered, a, n.inner);
          for (std::int64_t e = 0; e < n.experts; ++e)
            pdg[(first + r) * n.experts + e] = dot(g + e * n.each, a + e * n.each, n.each);
        }
        if (gates != nullptr) apply_gate(n, gates, g);
        activate_backward(n.activation, entered, g, a, d_entered, n.inner);
        if (gates != nullptr) apply_gate(n, gates, a);
        if (has_in_bias) add_to(in_bias_sums.of(lane), d_entered, n.entering);
        if (has_out_bias) add_to(out_bias_sums.of(lane), d + r * n.width, n.width);
      }
      transpose(count, n.width, {d, n.width}, {turned, count});
      product(Form::plain, Form::plain, n.width, n.inner, count, {turned, count}, {after, n.stride},
              {out_sums.of(lane), n.stride}, 1);
      product(Form::plain, Form::plain, count, n.width, n.entering, {into, n.entering_stride}, {n.in, n.width},
              {pdx + first * n.width, n.width});
      transpose(count, n.width, {n.x + first * n.width, n.width}, {turned, count});
      product(Form::plain, Form::plain, n.width, n.entering, count, {turned, count}, {into, n.entering_stride},
              {in_sums.of(lane), n.entering_stride}, 1);
    });
    transpose(n.width, n.entering, {in_sums.total(), n.entering_stride}, {d_in.data_ptr<float>(), n.width});
    const float* out_total = out_sums.total();
    for (std::int64_t r = 0; r < n.width; ++r)
      std::memcpy(d_out.data_ptr<float>() + r * n.inner, out_total + r * n.stride,
                  static_cast<std::size_t>(n.inner) * sizeof(float));
    const auto bias_gradient = [&](LaneSums& sums, std::int64_t size) {
      at::Tensor d = at::empty({size}, x.options());
      std::memcpy(d.data_ptr<float>(), sums.total(), static_cast<std::size_t>(size) * sizeof(float));
      return d;
    };
    return {dx,
            d_in,
            has_in_bias ? bias_gradient(in_bias_sums, n.entering) : at::Tensor(),
            d_out,
            has_out_bias ? bias_gradient(out_bias_sums, n.width) : at::Tensor(),
            d_gate,
            at::Tensor()};
  }
};

MaybeTensor maybe(const at::Tensor& tensor) { return tensor.defined() ? MaybeTensor(tensor.contiguous()) : MaybeTensor(); }

}  // namespace

at::Tensor plain_activation(Activation activation, const at::Tensor& before) {
  if (activation == Activation::relu) return at::relu(before);
  if (activation == Activation::gelu) return at::gelu(before, "tanh");
  const std::int64_t neurons = before.size(-1) / 2;
  return at::silu(before.narrow(-1, 0, neurons)) * before.narrow(-1, neurons, neurons);
}

at::Tensor with_up(const at::Tensor& in, const at::Tensor& up, std::int64_t dimension) {
  return up.defined() ? at::cat({in, up}, dimension) : in;
}

at::Tensor plain_feed_forward(const at::Tensor& x, const FeedForwardWeights& w, const at::Tensor& gate) {
  at::Tensor hidden = plain_activation(w.activation, at::linear(x, w.in, w.in_bias));
  if (gate.defined()) {
    const std::int64_t rows = x.size(0), experts = gate.size(1), neurons = hidden.size(1);
    hidden = (hidden.reshape({rows, experts, neurons / experts}) * gate.unsqueeze(2)).reshape({rows, neurons});
  }
  return at::linear(hidden, w.out, w.out_bias);
}

at::Tensor feed_forward(const at::Tensor& x, const FeedForwardWeights& w, const at::Tensor& gate) {
  const std::int64_t parts = w.activation == Activation::swiglu ? 2 : 1;
  TORCH_CHECK(x.dim() == 2 && w.in.dim() == 2 && w.out.dim() == 2 && w.in.size(1) == x.size(1) && w.out.size(0) == x.size(1) &&
                  w.in.size(0) == parts * w.out.size(1) &&
                  (!gate.defined() || (gate.size(0) == x.size(0) && w.out.size(1) % gate.size(1) == 0)),
              "feed-forward: x ", x.sizes(), ", in ", w.in.sizes(), ", out ", w.out.sizes());
  if (x.scalar_type() != at::kFloat) return plain_feed_forward(x, w, gate);
  const at::Tensor cx = x.contiguous(), in = w.in.contiguous(), out = w.out.contiguous();
  const MaybeTensor in_bias = maybe(w.in_bias), out_bias = maybe(w.out_bias), g = maybe(gate);
  if (!at::GradMode::is_enabled()) return run(network(cx, in, in_bias, out, out_bias, g, w.activation), cx.options(), nullptr);
  return Node::apply(cx, in, in_bias, out, out_bias, g, static_cast<std::int64_t>(w.activation));
}

}  // namespace moiety::engine
