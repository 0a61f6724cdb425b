#include "gram.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <tuple>

namespace moiety::consistency {
namespace {

constexpr std::int64_t most_numbers = std::int64_t{1} << 26;  // of gradients kept at once: a quarter of a GiB
constexpr std::int64_t columns = std::int64_t{1} << 16;       // of them made doubles at once

at::Tensor index(std::vector<std::int64_t> rows) {
  const auto size = static_cast<std::int64_t>(rows.size());
  return at::from_blob(rows.data(), {size}, at::TensorOptions().dtype(at::kLong)).clone();
}

at::Tensor own_products(const at::Tensor& rows) {
  at::Tensor sum = at::zeros({rows.size(0), rows.size(0)}, at::kDouble);
  for (std::int64_t from = 0; from < rows.size(1); from += columns) {
    const at::Tensor some = rows.narrow(1, from, std::min(columns, rows.size(1) - from)).to(at::kDouble);
    sum += some.matmul(some.t()).to(at::kCPU);
  }
  return sum;
}

/// "layer1" and "layer1.attention" of "layer1.attention.qkv": scopes that hold several tensors.
std::set<std::string> scopes_of(const std::vector<std::string>& tensors) {
  std::set<std::string> scopes;
  for (const std::string& tensor : tensors) {
    const std::size_t first = tensor.find('.'), second = first == std::string::npos ? first : tensor.find('.', first + 1);
    if (tensor.compare(0, 5, "layer") != 0 || first == std::string::npos) continue;
    scopes.insert(tensor.substr(0, first));
    if (second == std::string::npos) continue;
    const std::string place = tensor.substr(first + 1, second - first - 1);
    if (place == "attention" || place == "feed_forward") scopes.insert(tensor.substr(0, second));
  }
  return scopes;
}

}  // namespace

Gram::Gram(const Model& model, Windows windows) : model_(model), windows_(std::move(windows)) {}

void Gram::ask(const std::string& piece, const std::vector<std::string>& tensors) {
  const at::Tensor rows = model_.example_gradients(windows_, piece).detach();
  std::int64_t from = 0;
  for (const std::string& tensor : tensors) {
    const std::int64_t size = model_.size(tensor);
    if (from + size > rows.size(1)) throw std::logic_error("the gradients of " + piece + " are shorter than its tensors");
    of_tensor_[tensor] = own_products(rows.narrow(1, from, size));
    from += size;
  }
}

at::Tensor Gram::of(const std::string& scope) {
  const std::vector<std::string> tensors = model_.tensors(scope);
  // One backward pass for all tensors of a piece costs little more than for one, so the largest pieces that fit come first.
  std::vector<std::string> pieces{scope};
  for (const std::string& inner : scopes_of(tensors)) pieces.push_back(inner);
  for (const std::string& piece : pieces) {
    const std::vector<std::string> inside = model_.tensors(piece);
    const bool wanted = std::all_of(inside.begin(), inside.end(), [&](const std::string& tensor) {
      return of_tensor_.count(tensor) == 0 && std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
    });
    if (wanted && model_.size(piece) * static_cast<std::int64_t>(windows_.size()) <= most_numbers) ask(piece, inside);
  }
  const auto n = static_cast<std::int64_t>(windows_.size());
  at::Tensor sum = at::zeros({n, n}, at::kDouble);
  for (const std::string& tensor : tensors) {
    if (of_tensor_.count(tensor) == 0) ask(tensor, {tensor});
    sum += of_tensor_.at(tensor);
  }
  return sum;
}

Direction top_direction(const at::Tensor& gram) {
  if (!std::isfinite(gram.sum().item<double>())) throw std::runtime_error("a gradient is no finite number");
  const at::Tensor vectors = std::get<1>(at::linalg_eigh(gram.to(at::kCPU, at::kDouble)));
  Direction direction;
  direction.vector = vectors.select(1, vectors.size(1) - 1).contiguous();
  const double sum = direction.vector.sum().item<double>();
  direction.clear = std::abs(sum) >= 1e-3 * std::sqrt(static_cast<double>(gram.size(0)));
  if (sum < 0) direction.vector = direction.vector.neg();
  return direction;
}

Consistency consistency(const at::Tensor& gram, const std::vector<std::int64_t>& whole, const std::vector<std::int64_t>& part) {
  const at::Tensor x = index(whole), y = index(part);
  const at::Tensor all = gram.index_select(0, x), among_x = all.index_select(1, x), between = all.index_select(1, y),
                   among_y = gram.index_select(0, y).index_select(1, y);
  const Direction u = top_direction(among_x), v = top_direction(among_y);
  const double size =
      std::sqrt(u.vector.dot(among_x.matmul(u.vector)).item<double>() * v.vector.dot(among_y.matmul(v.vector)).item<double>());
  if (!(size > 0)) throw std::runtime_error("all gradients are zero");
  Consistency result;
  result.value = u.vector.dot(between.matmul(v.vector)).item<double>() / size;
  result.clear = u.clear && v.clear;
  if (!result.clear) result.value = std::abs(result.value);
  return result;
}

}  // namespace moiety::consistency
