// UniMax: shares as equal as they can be while no domain is read more than `epochs` times.
//
// Sizes ascending, B ← C (windows of the run); for the i-th of m from 0:  b ← B / (m − i);  U ← min(b, N·c_l);  B ← B − U. A
// domain's share is U / ΣU. A budget C above N·Σc cannot be spent, which normalising would hide: it is refused. Chung et al.,
// "UniMax: fairer and more effective language sampling for large-scale multilingual pretraining", ICLR 2023, section 3.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "../named_shares.h"
#include "moiety/mixing_scheduler.h"

namespace {

using namespace moiety;
using mixing::readable;

class UniMax final : public MixingScheduler {
 public:
  struct Options {
    double epochs;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::epochs>("epochs", 4.0, "no domain is read more often").above(0).in("epochs")};

  explicit UniMax(const Options& options) : options_(options) {}

  void check(const Facts& facts, Problems& problems) const override {
    if (!facts.domain_windows.empty() && facts.run_windows > 0) spendable(facts.domain_windows, facts.run_windows, problems);
  }

  void start(const Domains& domains) override {
    Problems problems;
    spendable(domains.windows, domains.run_windows, problems);
    mixing::refuse(problems);

    std::vector<std::size_t> ascending(domains.windows.size());
    std::iota(ascending.begin(), ascending.end(), std::size_t{0});
    std::stable_sort(ascending.begin(), ascending.end(),
                     [&](std::size_t a, std::size_t b) { return domains.windows[a] < domains.windows[b]; });
    shares_.assign(domains.windows.size(), 0.0);
    double left = static_cast<double>(domains.run_windows);
    for (std::size_t i = 0; i < ascending.size(); ++i) {
      const std::size_t d = ascending[i];
      const double most = options_.epochs * static_cast<double>(std::max<std::int64_t>(0, domains.windows[d]));
      shares_[d] = std::min(left / static_cast<double>(ascending.size() - i), most);
      left -= shares_[d];
    }
  }
  /// Windows of the whole run: the engine normalises.
  Mixture mixture(const Progress&) const override { return {shares_, {}}; }
  bool conserves_budgets() const override { return true; }

 private:
  void spendable(const std::vector<std::int64_t>& windows, std::int64_t run, Problems& problems) const {
    double all = 0;
    for (const std::int64_t n : windows) all += static_cast<double>(std::max<std::int64_t>(0, n));
    if (static_cast<double>(run) > options_.epochs * all * (1 + 1e-12))
      problems.add("epochs", "the run has " + std::to_string(run) + " windows, but " + readable(options_.epochs) +
                                 " epochs of all " + readable(all) + " windows are " + readable(options_.epochs * all));
  }

  Options options_;
  std::vector<double> shares_;
};

}  // namespace

MOIETY_PLUGIN("unimax", "1.0.0", "Equal shares under a cap of epochs",
              component<UniMax>("unimax", 1, "As equal as can be while no domain is read more than `epochs` times",
                                "Chung et al., UniMax, ICLR 2023, section 3"));
