// Orders domains by Lie brackets: every `every` steps it asks which domain should come earlier, at the same budgets, for one
// loss.
//
// Training follows V = Σ w_j v_j with v_j = −P g_j, g_j the gradient of domain j, H_j its Hessian, P = 1 (plain) or the
// optimizer's frozen diagonal (preconditioned). With [X, Y] = DY·X − DX·Y, moving domain i earlier by Δ_i(t) changes the target's
// loss L to first order by
//
//   δL = Σ_i ∫ Δ_i s_i dt,   s_i = ⟨g, [v_i, V]⟩ = ⟨u_mix, P g_i⟩ − ⟨u_i, P g_mix⟩,   u_i = H_i P g,  x_mix = Σ w_j x_j,  g = ∇L
//
// so s_i < 0 says: earlier is better. One Hessian-vector product a domain gives all of them. For two domains s_1 = w_2 s and
// s_2 = −w_1 s with s = ⟨g, H_2 g_1 − H_1 g_2⟩. The loss is the target domain's, or the mean of all domains'. g, g_i and u_i come
// from disjoint windows: a common batch would tie their noise together.
//
// The shares until the next question are r_i (1 − κ s_i / max |s|), r_i what is left of the budget of i; Σ r_i s_i = 0, so they
// add up. κ is `shift`, less towards the end, and 0 in the last interval: what was moved earlier is paid back by then. Commute
// Your Domains, arXiv 2501.15556; the score by one product a domain follows from the symmetry of the Hessians.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "../named_shares.h"
#include "moiety/mixing_scheduler.h"
#include "moiety/report.h"

namespace moiety::mixing {
MOIETY_CHOICE(Bracket, plain, preconditioned);
}

namespace {

using namespace moiety;
using mixing::Bracket;

constexpr const char* scope = "all";

double product_of(const at::Tensor& a, const at::Tensor& b) { return a.to(at::kDouble).dot(b.to(at::kDouble)).item<double>(); }

class LieBracket final : public MixingScheduler {
 public:
  struct Options {
    Shares weights;
    std::string target;
    std::int64_t every, batches, batch;
    double shift;
    Bracket bracket;
  };
  static constexpr Parameter parameters[] = {
      optional<&Options::weights>("weights", "a share for each domain in the whole run; left out: as their sizes"),
      param<&Options::target>("target", "", "the domain whose loss is to fall; empty: the mean over domains"),
      param<&Options::every>("every", 100, "steps from one question to the next").at_least(1).in("steps"),
      param<&Options::batches>("batches", 16, "of each domain, for each of the three that must not share windows").at_least(1),
      param<&Options::batch>("batch", 6, "windows of a batch").at_least(1).in("windows"),
      param<&Options::shift>("shift", 0.2, "the largest change of a share, as a part of it").range(0, 1),
      param<&Options::bracket>("bracket", Bracket::plain, "of plain gradients, or of gradients as the optimizer scales them")};
  static constexpr Output outputs[] = {
      metric("score", "", 0, "bracket score of a domain when last asked; negative: earlier is better for the target")
          .over("domain"),
      metric("moved", "share", 0, "part of the run's windows drawn otherwise than in equal mixture of what was left")};

  explicit LieBracket(Options options) : options_(std::move(options)) {}

  void check(const Facts& facts, Problems& problems) const override {
    if (!facts.domains.empty()) prepare(facts.domains, facts.domain_windows, problems);
  }
  void start(const Domains& domains) override {
    Problems problems;
    names_ = domains.names;
    budget_ = prepare(domains.names, domains.windows, problems);
    mixing::refuse(problems);
    if (!shares_.empty() && shares_.size() != budget_.size())
      throw std::invalid_argument("its state is of another number of domains");
    if (!shares_.empty()) return;  // a checkpoint said them
    shares_ = budget_;
    spent_.assign(budget_.size(), 0.0);
    scores_.assign(budget_.size(), 0.0);
  }

  Mixture mixture(const Progress&) const override { return {shares_, {}}; }
  bool conserves_budgets() const override { return true; }
  std::int64_t inspect_every() const override { return options_.every; }

  void inspect(const Model& model, const Data& data, const Progress& now, Random random) override {
    const double total = static_cast<double>(now.steps);
    for (std::size_t d = 0; d < spent_.size(); ++d) spent_[d] += shares_[d] * static_cast<double>(now.step - asked_) / total;
    asked_ = now.step;
    double left = 0;
    for (std::size_t d = 0; d < spent_.size(); ++d) left += shares_[d] = std::max(0.0, budget_[d] - spent_[d]);
    if (!(left > 0)) throw std::logic_error("asked after the end of the run");
    for (double& share : shares_) share /= left;

    const std::int64_t steps_left = now.steps - now.step, interval = std::min(options_.every, steps_left);
    const double most = static_cast<double>(steps_left) / static_cast<double>(interval) - 1;
    if (most <= 0 || !score(model, data, now, random)) return;
    double largest = 0;
    for (const double s : scores_) largest = std::max(largest, std::abs(s));
    if (!std::isfinite(largest)) throw std::runtime_error("a bracket is no finite number");
    if (!(largest > 0)) return;
    for (std::size_t d = 0; d < shares_.size(); ++d) {
      const double change = -std::min(options_.shift, most) * shares_[d] * scores_[d] / largest;
      shares_[d] = std::max(0.0, shares_[d] + change);
      moved_ += std::abs(change) / 2 * static_cast<double>(interval) / total;
    }
  }

  void state(Archive& archive) override {
    archive("shares", shares_);
    archive("spent", spent_);
    archive("scores", scores_);
    archive("asked", asked_);
    archive("moved", moved_);
  }
  void report(Report& report) const override {
    for (std::size_t d = 0; d < scores_.size(); ++d) report.metric("score", scores_[d], {{"domain", names_[d]}});
    report.metric("moved", moved_);
  }

 private:
  std::vector<double> prepare(const std::vector<std::string>& names, const std::vector<std::int64_t>& windows,
                              Problems& problems) const {
    const std::vector<double> budget = mixing::named_shares(options_.weights, names, windows, problems);
    if (!options_.target.empty()) mixing::find_domain(options_.target, names, windows, "target", problems);
    for (std::size_t d = 0; d < windows.size(); ++d) {
      if ((budget[d] > 0 || names[d] == options_.target) && windows[d] > 0 && windows[d] < 3)
        problems.add("", "domain `" + names[d] + "` has " + std::to_string(windows[d]) +
                             " training windows; a bracket needs three that are not the same");
    }
    return budget;
  }

  /// Three disjoint lists of windows of a domain.
  std::array<Windows, 3> groups(const Data& data, std::size_t domain, Random random) const {
    const std::int64_t there = data.table().count[domain];
    const auto size = static_cast<std::size_t>(std::min(options_.batches * options_.batch, there / 3));
    if (size < 1) throw std::invalid_argument("domain " + names_[domain] + " has fewer than three windows");
    Windows all(static_cast<std::size_t>(there));
    std::iota(all.begin(), all.end(), data.table().first[domain]);
    for (std::size_t i = 0; i < 3 * size; ++i)
      std::swap(all[i], all[i + static_cast<std::size_t>(random.below(static_cast<std::int64_t>(all.size() - i)))]);
    std::array<Windows, 3> result;
    for (std::size_t g = 0; g < 3; ++g)
      result[g].assign(all.begin() + static_cast<std::ptrdiff_t>(g * size),
                       all.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
    return result;
  }

  /// s of every domain for the shares that are left; false: the optimizer has not begun, so that there is no P yet.
  bool score(const Model& model, const Data& data, const Progress& now, const Random& random) {
    const at::Tensor scale = options_.bracket == Bracket::preconditioned ? model.preconditioner(scope) : at::Tensor();
    if (options_.bracket == Bracket::preconditioned && !scale.defined()) {
      if (now.step == 0) return false;
      throw std::invalid_argument("bracket = \"preconditioned\" needs an optimizer with moments");
    }
    const auto scaled = [&](const at::Tensor& g) { return scale.defined() ? g * scale : g; };

    std::vector<std::array<Windows, 3>> windows(names_.size());
    std::vector<std::size_t> active;
    at::Tensor target;
    double aims = 0;
    for (std::size_t d = 0; d < names_.size(); ++d) {
      const bool aim = options_.target.empty() ? budget_[d] > 0 : names_[d] == options_.target;
      if (shares_[d] > 0) active.push_back(d);
      if (shares_[d] > 0 || aim) windows[d] = groups(data, d, random.fork(d));
      if (!aim) continue;
      const at::Tensor g = model.gradient(windows[d][0], {}, scope);
      target = target.defined() ? target + g : g;
      ++aims;
    }
    target = scaled(target / aims);

    std::vector<at::Tensor> gradients, products;
    at::Tensor gradient_mix = at::zeros_like(target), product_mix = at::zeros_like(target);
    for (const std::size_t d : active) {
      gradients.push_back(scaled(model.gradient(windows[d][1], {}, scope)));
      products.push_back(model.hessian_product(windows[d][2], {}, target, scope));
      gradient_mix += gradients.back() * shares_[d];
      product_mix += products.back() * shares_[d];
    }
    scores_.assign(names_.size(), 0.0);
    for (std::size_t i = 0; i < active.size(); ++i)
      scores_[active[i]] = product_of(product_mix, gradients[i]) - product_of(products[i], gradient_mix);
    return true;
  }

  Options options_;
  std::vector<std::string> names_;
  std::vector<double> budget_;          ///< of the whole run, 1 together
  std::vector<double> shares_, spent_;  ///< until the next question; of the run, until the last one
  std::vector<double> scores_;
  std::int64_t asked_ = 0;  ///< the step of the last question
  double moved_ = 0;
};

}  // namespace

MOIETY_PLUGIN("lie-bracket", "1.0.0", "Order of domains by Lie brackets",
              component<LieBracket>("lie-bracket", 1, "Moves domains earlier or later within their budgets, as brackets say",
                                    "Commute Your Domains, arXiv 2501.15556, section 3"));
