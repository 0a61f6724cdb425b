#include "kernel/engine/numerics/cross_entropy.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernel/engine/numerics/clones.h"
#include "kernel/engine/numerics/exponential.h"
#include "kernel/engine/numerics/lanes.h"
#include "kernel/engine/numerics/matrix.h"

namespace moiety::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::int64_t largest_block =
    256;  // every product packs the table again: fewer rows cost more than logits that leave the cache

/// Turns a row of logits into scaled probabilities when `scale` is not 0; gives the row's loss.
MOIETY_CLONES float softmax_row(float* logits, std::int64_t size, std::int64_t target, float scale) {
  float top = logits[0];
#pragma omp simd reduction(max : top)
  for (std::int64_t i = 0; i < size; ++i) top = logits[i] > top ? logits[i] : top;
  const float picked = logits[target];
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < size; ++i) {
    logits[i] = fast_exp(logits[i] - top);
    sum += logits[i];
  }
  if (scale != 0) {
    const float factor = scale / sum;
    for (std::int64_t i = 0; i < size; ++i) logits[i] *= factor;
    logits[target] -= scale;
  }
  return std::log(sum) + top - picked;
}

struct Sizes {
  std::int64_t rows, width, vocabulary;
};
Sizes check(const at::Tensor& hidden, const at::Tensor& table, const at::Tensor& targets) {
  TORCH_CHECK(hidden.dim() == 2 && hidden.size(0) > 0 && table.dim() == 2 && targets.dim() == 1 &&
                  hidden.size(1) == table.size(1) && hidden.size(0) == targets.size(0) && targets.scalar_type() == at::kLong,
              "cross-entropy: hidden ", hidden.sizes(), ", table ", table.sizes(), ", targets ", targets.sizes());
  const Sizes sizes{hidden.size(0), hidden.size(1), table.size(0)};
  const std::int64_t* target = targets.data_ptr<std::int64_t>();
  for (std::int64_t r = 0; r < sizes.rows; ++r)
    TORCH_CHECK(target[r] >= 0 && target[r] < sizes.vocabulary, "target ", target[r], " is outside a vocabulary of ",
                sizes.vocabulary);
  return sizes;
}

class BlockedCrossEntropy : public Function<BlockedCrossEntropy> {
 public:
  // The gradient is made together with the loss, while a block's probabilities are in the cache.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& table,
                            const at::Tensor& targets) {
    const auto [rows, width, vocabulary] = check(hidden, table, targets);
    const at::Tensor x = hidden.contiguous(), w = table.contiguous();
    at::Tensor d_hidden = at::empty_like(x), d_table = at::empty_like(w);
    const float *px = x.data_ptr<float>(), *pw = w.data_ptr<float>();
    float* pd = d_hidden.data_ptr<float>();
    const std::int64_t* target = targets.data_ptr<std::int64_t>();
    const std::int64_t block = std::min(rows, largest_block), lanes = lanes_for((rows + block - 1) / block);
    const float scale = 1.0F / static_cast<float>(rows);
    const std::int64_t row = padded(vocabulary), narrow = padded(width);
    LaneSums sums(lanes, vocabulary * narrow);  // of the table's gradient
    std::vector<double> losses(static_cast<std::size_t>(lanes));
    const Scratch scratch(lanes * block * (row + narrow));
    in_row_blocks(rows, block, lanes, [&, w_ = width, v = vocabulary](std::int64_t lane, std::int64_t first, std::int64_t count) {
      float* logits = scratch.data() + lane * block * (row + narrow);
      float* copy = logits + block * row;
      product(Form::plain, Form::transposed, count, v, w_, {px + first * w_, w_}, {pw, w_}, {logits, row});
      double loss = 0;
      for (std::int64_t r = 0; r < count; ++r) {
        loss += static_cast<double>(softmax_row(logits + r * row, v, target[first + r], scale));
        std::copy_n(px + (first + r) * w_, w_, copy + r * narrow);
      }
      losses[static_cast<std::size_t>(lane)] += loss;
      product(Form::plain, Form::plain, count, w_, v, {logits, row}, {pw, w_}, {pd + first * w_, w_});
      product(Form::transposed, Form::plain, v, w_, count, {logits, row}, {copy, narrow}, {sums.of(lane), narrow}, 1);
    });
    const float* total = sums.total();
    for (std::int64_t v = 0; v < vocabulary; ++v) std::copy_n(total + v * narrow, width, d_table.data_ptr<float>() + v * width);
    double loss = 0;
    for (const double part : losses) loss += part;
    context->save_for_backward({d_hidden, d_table});
    return at::scalar_tensor(loss / static_cast<double>(rows), x.options());
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "the blocked cross-entropy cannot be differentiated twice; use plain_cross_entropy");
    const auto saved = context->get_saved_variables();
    const float factor = gradients[0].item<float>();
    if (factor == 1.0F) return {saved[0], saved[1], at::Tensor()};
    return {saved[0] * factor, saved[1] * factor, at::Tensor()};
  }
};

}  // namespace

at::Tensor plain_cross_entropy(const at::Tensor& hidden, const at::Tensor& table, const at::Tensor& targets) {
  return at::nll_loss(at::log_softmax(at::linear(hidden, table), 1), targets);
}

at::Tensor cross_entropy(const at::Tensor& hidden, const at::Tensor& table, const at::Tensor& targets) {
  if (hidden.scalar_type() != at::kFloat) return plain_cross_entropy(hidden, table, targets);
  if (!at::GradMode::is_enabled()) return token_losses(hidden, table, targets).mean();
  return BlockedCrossEntropy::apply(hidden, table, targets.contiguous());
}

at::Tensor token_losses(const at::Tensor& hidden, const at::Tensor& table, const at::Tensor& targets) {
  const at::NoGradGuard no_gradient;
  if (hidden.scalar_type() != at::kFloat)
    return at::log_softmax(at::linear(hidden, table), 1).gather(1, targets.unsqueeze(1)).squeeze(1).neg();
  const at::Tensor x = hidden.contiguous(), w = table.contiguous(), t = targets.contiguous();
  const auto [rows, width, vocabulary] = check(x, w, t);
  at::Tensor out = at::empty({rows}, x.options());
  const std::int64_t block = std::min(rows, largest_block), lanes = lanes_for((rows + block - 1) / block);
  const std::int64_t row = padded(vocabulary);
  const Scratch scratch(lanes * block * row);
  const float *px = x.data_ptr<float>(), *pw = w.data_ptr<float>();
  const std::int64_t* target = t.data_ptr<std::int64_t>();
  float* losses = out.data_ptr<float>();
  in_row_blocks(rows, block, lanes, [&, w_ = width, v = vocabulary](std::int64_t lane, std::int64_t first, std::int64_t count) {
    float* logits = scratch.data() + lane * block * row;
    product(Form::plain, Form::transposed, count, v, w_, {px + first * w_, w_}, {pw, w_}, {logits, row});
    for (std::int64_t r = 0; r < count; ++r) losses[first + r] = softmax_row(logits + r * row, v, target[first + r], 0);
  });
  return out;
}

}  // namespace moiety::engine
