// Projected networks: the matrices of an expert are combinations of a bank of matrices that all experts share.
//
//   in_i = Σ_r a_ir T_r,  a_i = e_i M      T = bank.in [h, F, d], M = mix_in [m, h], e = code [N, m]; out_i (and up_i of a gated
//                                          feed-forward) likewise from bank.out and mix_out
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

#include <cmath>
#include <map>
#include <stdexcept>
#include <string>

#include "../dense_layers.h"
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
    constructors::expect_matrices(sources, site);
  }

  Layout bind(const Site& site, Parameters& to) override {
    const std::int64_t n = options_.count, h = options_.bank, m = options_.code;
    const double of_mix = 1 / std::sqrt(static_cast<double>(h)), of_code = 1 / std::sqrt(static_cast<double>(m));
    Layout layout;
    for (const Role& role : layer_roles(site)) {
      if (role.name == "out_bias") {
        to.add(constructors::shared_by_experts(role));
        continue;
      }
      layout.derived[role.name] = constructors::with_experts(n, role.shape);
      Combined& combined = combined_[role.name];
      if (role.is_bias()) {
        combined.bank = to.add(spec("bank." + role.name, role.shape).without_decay());
        continue;
      }
      combined.bank = to.add(spec("bank." + role.name, constructors::with_experts(h, role.shape)).normal(role.deviation));
      combined.mix = to.add(spec("mix_" + role.name, {m, h}).normal(of_mix).without_decay());
      layout.derive_multiply_adds += static_cast<double>(h) * static_cast<double>(m + role.shape[0] * role.shape[1]);
    }
    code_ = to.add(spec("code", {n, m}).normal(of_code).without_decay().of_experts().for_all_sites());
    return layout;
  }

  TensorMap expand(const Sources& sources, const Site& site) const override {
    if (sources.empty()) return {};
    const std::int64_t h = options_.bank, m = options_.code;
    const at::TensorOptions options = sources[0].at("in").options().requires_grad(false);
    /// [rows, columns]: row i is the unit vector i mod columns.
    const auto units = [&](std::int64_t rows, std::int64_t columns) {
      return at::eye(columns, options).index_select(0, at::arange(rows, options.dtype(at::kLong)).remainder(columns));
    };
    TensorMap values{{"code", units(options_.count, m)}};
    for (const Role& role : layer_roles(site)) {
      const at::Tensor dense = constructors::read_role(sources[0], role);
      if (role.name == "out_bias") {
        values["out_bias"] = dense.clone().unsqueeze(0);
      } else if (role.is_bias()) {
        values["bank." + role.name] = dense.clone();
      } else {
        values["bank." + role.name] = dense.expand(constructors::with_experts(h, role.shape)).contiguous();
        values["mix_" + role.name] = units(m, h);
      }
    }
    return values;
  }

  at::Tensor weight(std::string_view role, const std::vector<std::int64_t>& experts) const override {
    const auto number = static_cast<std::int64_t>(experts.size());
    const auto found = combined_.find(std::string(role));
    if (found == combined_.end()) throw std::invalid_argument("there is no derived role " + std::string(role));
    const Weight &bank = found->second.bank, &mix = found->second.mix;
    if (bank->dim() == 1) return bank->expand({number, bank->size(0)});
    const at::Tensor codes = code_->index_select(0, at::tensor(experts, code_->options().dtype(at::kLong).requires_grad(false)));
    return codes.matmul(*mix).matmul(bank->flatten(1)).view({number, bank->size(1), bank->size(2)});
  }

 private:
  /// What a derived role is made of; a bias has no mix: all experts share it.
  struct Combined {
    Weight bank, mix;
  };

  Options options_;
  std::map<std::string, Combined> combined_;
  Weight code_;
};

}  // namespace

MOIETY_PLUGIN("projected", "1.0.0", "Experts combined of a shared bank of matrices",
              component<Projected>("projected", 1, "An expert's matrices are combinations of a bank, by a code of its own",
                                   "Grangier et al., Need a Small Specialized Language Model? Plan Early!, 2024, section 2.5"));
