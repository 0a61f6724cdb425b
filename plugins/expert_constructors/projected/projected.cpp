// Projected networks: the matrices of an expert are combinations of a bank of matrices that all experts share.
//
//   in_i = Σ_r a_ir T_r,  a_i = e_i M      T = bank.in [h, s, d], M = mix_in [m, h], e = code [N, m]; out_i from bank.out,
//   mix_out
//
// The code of an expert is the same in all layers; bank and mix are a layer's own; biases are shared by all experts. To use one
// expert is to compute its matrices once: a small model with nothing of the bank in it.
//
// A fresh model: T as the matrices of a dense layer, e ~ N(0, 1/m), M ~ N(0, 1/h), so that E|a_i|² = 1 and an expert's matrices
// have the variance of a dense layer's. From a dense model: every T_r is its matrix, M_q = unit vector q mod h, e_i = unit vector
// i mod m, so that every expert is the dense layer, and experts with other slices part as soon as they see other data.
//
// Grangier et al.: "Need a Small Specialized Language Model? Plan Early!", 2024, section 2.5 (h, m, starts and biases are ours:
// the paper does not give them).
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "moiety/expert_constructor.h"

namespace {

using namespace moiety;

class Projected final : public ExpertConstructor {
 public:
  struct Options {
    std::int64_t count, bank, code;
  };
  static constexpr Parameter parameters[] = {
      required<&Options::count>("count", "experts").range(1, 100000).in("experts"),
      param<&Options::bank>("bank", 8, "matrices that the experts' matrices are combined of, and as many for the second layer")
          .range(1, 100000)
          .in("matrices"),
      param<&Options::code>("code", 16, "numbers that tell one expert from another").range(1, 100000).in("numbers")};

  explicit Projected(const Options& options) : options_(options) {}

  void check(const Facts& facts, Problems& problems) const override {
    if (facts.sources > 1) problems.add("", "starts from one model, but " + std::to_string(facts.sources) + " are read");
    if (facts.site != nullptr && facts.site->place != Place::feed_forward)
      problems.add("", "makes experts of feed-forwards alone");
  }
  std::int64_t count(const Facts&) const override { return options_.count; }

  void plan(const Sources& sources, const Site& site, const Activations*, Random) override {
    if (sources.empty()) return;
    if (sources[0].at("in").sizes() != at::IntArrayRef({site.inner, site.width}) ||
        sources[0].at("out").sizes() != at::IntArrayRef({site.width, site.inner}))
      throw std::invalid_argument("the dense layer has another shape than its site");
  }

  Layout bind(const Site& site, Parameters& to) override {
    const std::int64_t n = options_.count, h = options_.bank, m = options_.code, s = site.inner, d = site.width;
    const double sd = 0.02, residual_sd = sd / std::sqrt(2.0 * static_cast<double>(std::max<std::int64_t>(1, site.layers)));
    const double of_mix = 1 / std::sqrt(static_cast<double>(h)), of_code = 1 / std::sqrt(static_cast<double>(m));
    in_ = to.add(spec("bank.in", {h, s, d}).normal(sd));
    out_ = to.add(spec("bank.out", {h, d, s}).normal(residual_sd));
    in_bias_ = to.add(spec("bank.in_bias", {s}).without_decay());
    to.add(spec("out_bias", {1, d}).without_decay());
    mix_in_ = to.add(spec("mix_in", {m, h}).normal(of_mix).without_decay());
    mix_out_ = to.add(spec("mix_out", {m, h}).normal(of_mix).without_decay());
    code_ = to.add(spec("code", {n, m}).normal(of_code).without_decay().of_experts().for_all_sites());
    Layout layout;
    layout.derived = {{"in", {n, s, d}}, {"out", {n, d, s}}, {"in_bias", {n, s}}};
    layout.derive_multiply_adds = 2.0 * static_cast<double>(h) * (static_cast<double>(m) + static_cast<double>(s * d));
    return layout;
  }

  TensorMap expand(const Sources& sources, const Site& site) const override {
    if (sources.empty()) return {};
    const TensorMap& dense = sources[0];
    const std::int64_t h = options_.bank, m = options_.code, s = site.inner, d = site.width;
    const at::TensorOptions options = dense.at("in").options().requires_grad(false);
    const auto bias = [&](const char* role, std::int64_t size) {
      const auto found = dense.find(role);
      return found != dense.end() ? found->second.detach().clone() : at::zeros({size}, options);
    };
    /// [rows, columns]: row i is the unit vector i mod columns.
    const auto units = [&](std::int64_t rows, std::int64_t columns) {
      return at::eye(columns, options).index_select(0, at::arange(rows, options.dtype(at::kLong)).remainder(columns));
    };
    return {{"bank.in", dense.at("in").detach().expand({h, s, d}).contiguous()},
            {"bank.out", dense.at("out").detach().expand({h, d, s}).contiguous()},
            {"bank.in_bias", bias("in_bias", s)},
            {"out_bias", bias("out_bias", d).unsqueeze(0)},
            {"mix_in", units(m, h)},
            {"mix_out", units(m, h)},
            {"code", units(options_.count, m)}};
  }

  at::Tensor weight(std::string_view role, const std::vector<std::int64_t>& experts) const override {
    const auto number = static_cast<std::int64_t>(experts.size());
    if (role == "in_bias") return in_bias_->expand({number, in_bias_->size(0)});
    if (role != "in" && role != "out") throw std::invalid_argument("there is no derived role " + std::string(role));
    const Weight &bank = role == "in" ? in_ : out_, &mix = role == "in" ? mix_in_ : mix_out_;
    const at::Tensor codes = code_->index_select(0, at::tensor(experts, code_->options().dtype(at::kLong).requires_grad(false)));
    return codes.matmul(*mix).matmul(bank->flatten(1)).view({number, bank->size(1), bank->size(2)});
  }

 private:
  Options options_;
  Weight in_, out_, in_bias_, mix_in_, mix_out_, code_;
};

}  // namespace

MOIETY_PLUGIN("projected", "1.0.0", "Experts combined of a shared bank of matrices",
              component<Projected>("projected", 1, "An expert's matrices are combinations of a bank, by a code of its own",
                                   "Grangier et al., Need a Small Specialized Language Model? Plan Early!, 2024, section 2.5"));
