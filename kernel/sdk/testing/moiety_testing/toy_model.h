// For unit tests of plugins: a model whose losses are quadratic functions of a few numbers, so that gradients and Hessian-vector
// products have closed forms, and data that are nothing but domains and tokens.
#ifndef MOIETY_TESTING_TOY_MODEL_H_
#define MOIETY_TESTING_TOY_MODEL_H_

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "moiety/model.h"

namespace moiety::testing {

/// A double tensor of these numbers.
inline at::Tensor exact(std::vector<double> numbers, const std::vector<std::int64_t>& shape) {
  return at::from_blob(numbers.data(), shape, at::TensorOptions().dtype(at::kDouble)).clone();
}

class TestData final : public Data {
 public:
  TestData(std::vector<std::string> names, std::vector<std::int64_t> counts) : names_(std::move(names)) {
    table_.count = std::move(counts);
    std::int64_t first = 0;
    for (const std::int64_t count : table_.count) {
      table_.first.push_back(first);
      first += count;
    }
    tokens_ = at::zeros({first, 2}, at::kLong);
    counts_ = at::zeros({1}, at::kLong);
  }
  /// [windows, L + 1] and [V], both int64.
  void set_tokens(at::Tensor tokens, at::Tensor counts) {
    tokens_ = std::move(tokens);
    counts_ = std::move(counts);
  }
  const std::vector<std::string>& domains() const override { return names_; }
  const WindowTable& table() const override { return table_; }
  at::Tensor tokens(const Windows& windows) const override { return tokens_.index_select(0, index(windows)); }
  at::Tensor token_counts() const override { return counts_; }
  std::size_t domain(std::int64_t window) const {
    std::size_t d = 0;
    while (window >= table_.first[d] + table_.count[d]) ++d;
    return d;
  }
  static at::Tensor index(Windows windows) {
    const auto size = static_cast<std::int64_t>(windows.size());
    return at::from_blob(windows.data(), {size}, at::TensorOptions().dtype(at::kLong)).clone();
  }

 private:
  std::vector<std::string> names_;
  WindowTable table_;
  at::Tensor tokens_, counts_;
};

/// f(θ) = ½ (θ − c)ᵀ H (θ − c) + b · θ; an undefined part is not there.
struct Quadratic {
  at::Tensor hessian, centre, slope;

  double value(const at::Tensor& point) const {
    double sum = 0;
    if (hessian.defined()) sum += 0.5 * (point - centre).dot(hessian.matmul(point - centre)).item<double>();
    return slope.defined() ? sum + slope.dot(point).item<double>() : sum;
  }
  at::Tensor gradient(const at::Tensor& point) const {
    const at::Tensor g = hessian.defined() ? hessian.matmul(point - centre) : at::zeros_like(point);
    return slope.defined() ? g + slope : g;
  }
};

/// Each window has a quadratic function of the point; its tensors are consecutive pieces of the point, all in double.
class ToyModel final : public Model {
 public:
  using OfWindow = std::function<Quadratic(std::int64_t window)>;
  struct Piece {
    std::string name;
    std::int64_t size = 0;
  };
  ToyModel(at::Tensor point, OfWindow of_window) : point_(std::move(point)), of_window_(std::move(of_window)) {
    pieces_ = {{"layer0.weight", point_.numel()}};
  }

  at::Tensor point_;
  at::Tensor preconditioner_;  ///< of the whole point; undefined: none
  std::vector<Piece> pieces_;
  mutable std::vector<std::pair<std::string, Windows>> calls_;  ///< what was asked for on which windows

  std::int64_t layers() const override { return 1; }
  std::vector<std::string> tensors(const std::string& scope) const override {
    std::vector<std::string> names;
    for (const Piece& piece : pieces_)
      if (in(scope, piece.name)) names.push_back(piece.name);
    if (names.empty()) throw std::invalid_argument("no scope " + scope);
    return names;
  }
  std::int64_t size(const std::string& scope) const override {
    std::int64_t sum = 0;
    for (const Piece& piece : pieces_) sum += in(scope, piece.name) ? piece.size : 0;
    return sum;
  }
  at::Tensor gradient(const Windows& windows, const at::Tensor& weights, const std::string& scope) const override {
    calls_.emplace_back("gradient", windows);
    return example_rows(windows).t().matmul(weights_of(windows, weights)).index_select(0, columns(scope));
  }
  at::Tensor example_gradients(const Windows& windows, const std::string& scope) const override {
    calls_.emplace_back("example_gradients", windows);
    return example_rows(windows).index_select(1, columns(scope));
  }
  at::Tensor hessian_product(const Windows& windows, const at::Tensor& weights, const at::Tensor& v,
                             const std::string& scope) const override {
    calls_.emplace_back("hessian_product", windows);
    const at::Tensor w = weights_of(windows, weights), at_columns = columns(scope);
    at::Tensor whole = at::zeros_like(point_).index_copy(0, at_columns, v), sum = at::zeros_like(point_);
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const Quadratic f = of_window_(windows[i]);
      if (f.hessian.defined()) sum += w[static_cast<std::int64_t>(i)] * f.hessian.matmul(whole);
    }
    return sum.index_select(0, at_columns);
  }
  at::Tensor preconditioner(const std::string& scope) const override {
    return preconditioner_.defined() ? preconditioner_.index_select(0, columns(scope)) : at::Tensor();
  }
  double displaced_loss(const Windows& windows, const at::Tensor& offset, const std::string& scope) const override {
    const at::Tensor moved = point_.index_add(0, columns(scope), offset);
    double sum = 0;
    for (const std::int64_t window : windows) sum += of_window_(window).value(moved);
    return sum / static_cast<double>(windows.size());
  }

 private:
  static bool in(const std::string& scope, const std::string& name) {
    if (scope == "all" || scope == name) return true;
    if (scope == "body") return name.rfind("embedding", 0) != 0;
    return name.rfind(scope + ".", 0) == 0;
  }
  at::Tensor columns(const std::string& scope) const {
    Windows chosen;
    std::int64_t column = 0;
    for (const Piece& piece : pieces_)
      for (std::int64_t i = 0; i < piece.size; ++i, ++column)
        if (in(scope, piece.name)) chosen.push_back(column);
    return TestData::index(chosen);
  }
  at::Tensor example_rows(const Windows& windows) const {
    std::vector<at::Tensor> rows;
    for (const std::int64_t window : windows) rows.push_back(of_window_(window).gradient(point_));
    return at::stack(rows);
  }
  static at::Tensor weights_of(const Windows& windows, const at::Tensor& weights) {
    if (weights.defined()) return weights;
    const auto n = static_cast<std::int64_t>(windows.size());
    return at::full({n}, 1.0 / static_cast<double>(n), at::kDouble);
  }

  OfWindow of_window_;
};

/// The canonical pair of two losses in the plane whose Hessians do not commute:
/// L1 = ½ [(x − 1)² + 4 y²],  L2 = ½ (θ − (0, 1))ᵀ [[3.5, −2.5], [−2.5, 3.5]] (θ − (0, 1)).
inline Quadratic plane_loss(std::size_t domain) {
  if (domain == 0) return {exact({1, 0, 0, 4}, {2, 2}), exact({1, 0}, {2}), {}};
  return {exact({3.5, -2.5, -2.5, 3.5}, {2, 2}), exact({0, 1}, {2}), {}};
}

}  // namespace moiety::testing

#endif  // MOIETY_TESTING_TOY_MODEL_H_
