#include "kernel/engine/layers/routed_feed_forward.h"

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

constexpr std::int64_t largest_group = 1024;  // rows sorted by expert at once: what is gathered and scattered stays in the cache
constexpr std::int64_t most = 256;            // rows of one product

/// Which rows each expert computes, group by group: the rows of expert n in group g are rows[starts[g·N + n] … starts[g·N + n +
/// 1]).
struct Assignment {
  at::Tensor rows, starts;  // int64
};

Assignment assign(const at::Tensor& experts, std::int64_t number) {
  const std::int64_t count = experts.size(0), k = experts.size(1), lanes = lanes_for(count);
  const std::int64_t group = std::min(largest_group, (count + lanes - 1) / lanes);  // each thread has one
  const std::int64_t groups = count > 0 ? (count + group - 1) / group : 0;
  const auto* chosen = experts.data_ptr<std::int64_t>();
  const auto is_first = [&](std::int64_t row, std::int64_t place) {  // an expert named twice runs once; the gate has the sum
    const std::int64_t* of_row = chosen + row * k;
    return of_row[place] >= 0 && std::find(of_row, of_row + place, of_row[place]) == of_row + place;
  };
  Assignment a{at::Tensor(), at::zeros({groups * number + 1}, at::kLong)};
  auto* starts = a.starts.data_ptr<std::int64_t>();
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t j = 0; j < k; ++j)
      if (is_first(r, j)) ++starts[r / group * number + chosen[r * k + j] + 1];
  for (std::int64_t i = 0; i < groups * number; ++i) starts[i + 1] += starts[i];
  a.rows = at::empty({starts[groups * number]}, at::kLong);
  auto* rows = a.rows.data_ptr<std::int64_t>();
  std::vector<std::int64_t> next(starts, starts + groups * number);
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t j = 0; j < k; ++j)
      if (is_first(r, j)) rows[next[static_cast<std::size_t>(r / group * number + chosen[r * k + j])]++] = r;
  return a;
}

/// What both directions need to know.
struct Network {
  Activation activation;
  std::int64_t count, width, experts, each, entering, groups;
  const float *x, *in, *in_bias, *out, *gate;
  const std::int64_t *rows, *starts;

  const float* in_of(std::int64_t n) const { return in + n * entering * width; }
  const float* out_of(std::int64_t n) const { return out + n * each * width; }
  /// body(lane, expert, first pair, pairs) for every piece of at most `most` rows of one expert.
  template <class Body>
  void for_each_piece(std::int64_t lanes, const Body& body) const {
    in_lanes(groups, lanes, [&](std::int64_t lane, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin * experts; i < end * experts; ++i)
        for (std::int64_t first = starts[i]; first < starts[i + 1]; first += most)
          body(lane, i % experts, first, std::min(most, starts[i + 1] - first));
    });
  }
  void gather(const float* from, std::int64_t first, std::int64_t pairs, float* to) const {
    for (std::int64_t p = 0; p < pairs; ++p)
      std::memcpy(to + p * width, from + rows[first + p] * width, static_cast<std::size_t>(width) * sizeof(float));
  }
  void scatter(const float* from, std::int64_t first, std::int64_t pairs, float* to) const {
    for (std::int64_t p = 0; p < pairs; ++p) add_to(to + rows[first + p] * width, from + p * width, width);
  }
  void activate_rows(std::int64_t pairs, const float* from, float* after) const {
    if (entering == each) return activate(activation, from, after, pairs * each);
    for (std::int64_t p = 0; p < pairs; ++p) activate(activation, from + p * entering, after + p * each, each);
  }
  void activate_rows_backward(std::int64_t pairs, const float* from, const float* d, float* after, float* into) const {
    if (entering == each) return activate_backward(activation, from, d, after, into, pairs * each);
    for (std::int64_t p = 0; p < pairs; ++p)
      activate_backward(activation, from + p * entering, d + p * each, after + p * each, into + p * entering, each);
  }
  float gate_of(std::int64_t pair, std::int64_t n) const { return gate[rows[pair] * experts + n]; }
  /// The neurons of each pair times its gate.
  void apply_gate(std::int64_t first, std::int64_t pairs, std::int64_t n, float* neurons) const {
    for (std::int64_t p = 0; p < pairs; ++p)
      if (const float factor = gate_of(first + p, n); factor != 1.0F) scale_by(neurons + p * each, factor, each);
  }
};

Network network(const at::Tensor& x, const at::Tensor& in, const at::Tensor& in_bias, const at::Tensor& out,
                const at::Tensor& gate, const Assignment& a, Activation activation) {
  return {activation,
          x.size(0),
          x.size(1),
          in.size(0),
          out.size(2),
          in.size(1),
          (a.starts.size(0) - 1) / in.size(0),
          x.data_ptr<float>(),
          in.data_ptr<float>(),
          in_bias.defined() ? in_bias.data_ptr<float>() : nullptr,
          out.data_ptr<float>(),
          gate.data_ptr<float>(),
          a.rows.data_ptr<std::int64_t>(),
          a.starts.data_ptr<std::int64_t>()};
}

/// `before` [pairs, s or 2s] keeps what entered the activation, or is null.
at::Tensor run(const Network& net, const at::TensorOptions& options, float* before) {
  at::Tensor y = at::zeros({net.count, net.width}, options);
  float* py = y.data_ptr<float>();
  const std::int64_t lanes = lanes_for(net.groups), per_lane = most * (net.each + net.entering + net.width);
  const Scratch scratch(lanes * per_lane);
  net.for_each_piece(lanes, [&](std::int64_t lane, std::int64_t n, std::int64_t first, std::int64_t pairs) {
    float *rows = scratch.data() + lane * per_lane, *after = rows + most * net.width;
    float* entering = before != nullptr ? before + first * net.entering : after + most * net.each;
    net.gather(net.x, first, pairs, rows);
    if (net.in_bias != nullptr) fill_rows(entering, net.in_bias + n * net.entering, pairs, net.entering, net.entering);
    product(Form::plain, Form::transposed, pairs, net.entering, net.width, {rows, net.width}, {net.in_of(n), net.width},
            {entering, net.entering}, net.in_bias != nullptr ? 1.0F : 0.0F);
    net.activate_rows(pairs, entering, after);
    net.apply_gate(first, pairs, n, after);
    product(Form::plain, Form::transposed, pairs, net.width, net.each, {after, net.each}, {net.out_of(n), net.each},
            {rows, net.width});
    net.scatter(rows, first, pairs, py);
  });
  return y;
}

class Node : public Function<Node> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& in, const MaybeTensor& in_bias,
                            const at::Tensor& out, const at::Tensor& gate, const at::Tensor& rows, const at::Tensor& starts,
                            std::int64_t activation) {
    context->saved_data["activation"] = activation;
    const at::Tensor before = at::empty({rows.size(0), in.size(1)}, x.options());
    context->save_for_backward({x, in, out, gate, rows, starts, before});
    context->saved_data["gate_gradient"] = gate.requires_grad();
    context->saved_data["in_bias"] = in_bias.has_value();
    return run(network(x, in, in_bias ? *in_bias : at::Tensor(), out, gate, {rows, starts}, static_cast<Activation>(activation)),
               x.options(), before.data_ptr<float>());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "this feed-forward cannot be differentiated twice; use plain_feed_forward");
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &in = saved[1], &out = saved[2], &gate = saved[3], dy = gradients[0].contiguous();
    const bool has_in_bias = context->saved_data["in_bias"].toBool();
    const auto activation = static_cast<Activation>(context->saved_data["activation"].toInt());
    const Network net = network(x, in, at::Tensor(), out, gate, {saved[4], saved[5]}, activation);
    const float *before = saved[6].data_ptr<float>(), *pdy = dy.data_ptr<float>();
    at::Tensor dx = at::zeros_like(x), d_in = at::empty_like(in), d_out = at::empty_like(out), d_gate, d_in_bias;
    if (context->saved_data["gate_gradient"].toBool()) d_gate = at::zeros_like(gate);
    float *pdx = dx.data_ptr<float>(), *pdg = d_gate.defined() ? d_gate.data_ptr<float>() : nullptr;

    const std::int64_t s = net.each, t = net.entering, d = net.width, lanes = lanes_for(net.groups);
    const std::int64_t per_lane = most * (2 * s + 2 * t + 2 * d);
    LaneSums in_sums(lanes, net.experts * t * d), out_sums(lanes, net.experts * s * d), bias_sums(lanes, net.experts * t);
    const Scratch scratch(lanes * per_lane);
    net.for_each_piece(lanes, [&](std::int64_t lane, std::int64_t n, std::int64_t first, std::int64_t pairs) {
      float *rows = scratch.data() + lane * per_lane, *upstream = rows + most * d, *after = upstream + most * d,
            *gradient = after + most * s, *turned = gradient + most * s,
            *into = t == s ? gradient : turned + most * t;  // in place where it can be
      const float* entered = before + first * t;
      net.gather(net.x, first, pairs, rows);
      net.gather(pdy, first, pairs, upstream);
      product(Form::plain, Form::plain, pairs, s, d, {upstream, d}, {net.out_of(n), s}, {gradient, s});
      if (pdg != nullptr) {
        net.activate_rows(pairs, entered, after);
        for (std::int64_t p = 0; p < pairs; ++p)
          pdg[net.rows[first + p] * net.experts + n] = dot(gradient + p * s, after + p * s, s);
      }
      net.apply_gate(first, pairs, n, gradient);
      net.activate_rows_backward(pairs, entered, gradient, after, into);
      net.apply_gate(first, pairs, n, after);
      if (has_in_bias)
        for (std::int64_t p = 0; p < pairs; ++p) add_to(bias_sums.of(lane) + n * t, into + p * t, t);
      transpose(pairs, s, {after, s}, {turned, pairs});
      product(Form::plain, Form::plain, s, d, pairs, {turned, pairs}, {upstream, d}, {out_sums.of(lane) + n * s * d, d}, 1);
      transpose(pairs, t, {into, t}, {turned, pairs});
      product(Form::plain, Form::plain, t, d, pairs, {turned, pairs}, {rows, d}, {in_sums.of(lane) + n * t * d, d}, 1);
      product(Form::plain, Form::plain, pairs, d, t, {into, t}, {net.in_of(n), d}, {rows, d});
      net.scatter(rows, first, pairs, pdx);
    });
    std::memcpy(d_in.data_ptr<float>(), in_sums.total(), static_cast<std::size_t>(d_in.numel()) * sizeof(float));
    const float* out_total = out_sums.total();  // [N, s, d]
    for (std::int64_t n = 0; n < net.experts; ++n)
      transpose(s, d, {out_total + n * s * d, d}, {d_out.data_ptr<float>() + n * s * d, s});
    if (has_in_bias) {
      d_in_bias = at::empty({net.experts, t}, x.options());
      std::memcpy(d_in_bias.data_ptr<float>(), bias_sums.total(), static_cast<std::size_t>(d_in_bias.numel()) * sizeof(float));
    }
    return {dx, d_in, d_in_bias, d_out, d_gate, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor routed_feed_forward(const at::Tensor& x, const ExpertWeights& w, const at::Tensor& gate, const at::Tensor& experts) {
  TORCH_CHECK(x.dim() == 2 && w.in.dim() == 3 && w.out.dim() == 3 && experts.dim() == 2 && x.scalar_type() == at::kFloat &&
                  w.in.size(2) == x.size(1) && w.out.size(0) == w.in.size(0) && w.out.size(1) == x.size(1) &&
                  w.in.size(1) == (w.activation == Activation::swiglu ? 2 : 1) * w.out.size(2) && experts.size(0) == x.size(0) &&
                  gate.dim() == 2 && gate.size(0) == x.size(0) && gate.size(1) == w.in.size(0),
              "routed feed-forward: x ", x.sizes(), ", in ", w.in.sizes(), ", out ", w.out.sizes(), ", experts ",
              experts.sizes());
  const Assignment a = assign(experts.contiguous(), w.in.size(0));
  const at::Tensor cx = x.contiguous(), in = w.in.contiguous(), out = w.out.contiguous(), g = gate.contiguous(),
                   bias = w.in_bias.defined() ? w.in_bias.contiguous() : at::Tensor();
  if (!at::GradMode::is_enabled()) return run(network(cx, in, bias, out, g, a, w.activation), cx.options(), nullptr);
  return Node::apply(cx, in, bias.defined() ? MaybeTensor(bias) : MaybeTensor(), out, g, a.rows, a.starts,
                     static_cast<std::int64_t>(w.activation));
}

bool worth_routing(const at::Tensor& x, std::int64_t number_of_experts, const at::Tensor& experts) {
  return x.scalar_type() == at::kFloat && experts.defined() && experts.size(1) * 4 <= number_of_experts * 3;
}

}  // namespace moiety::engine
