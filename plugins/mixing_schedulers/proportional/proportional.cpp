// Shares as the domains' sizes: every window is as likely as any other.
#include <stdexcept>

#include "moiety/mixing_scheduler.h"

namespace {

using namespace moiety;

class Proportional final : public MixingScheduler {
 public:
  void start(const Domains& domains) override {
    shares_.assign(domains.windows.begin(), domains.windows.end());
    double total = 0;
    for (const double share : shares_) total += share;
    if (!(total > 0)) throw std::invalid_argument("no domain has a training window");
  }
  Mixture mixture(const Progress&) const override { return {shares_, {}}; }

 private:
  std::vector<double> shares_;
};

}  // namespace

MOIETY_PLUGIN("proportional", "1.0.0", "Shares as sizes",
              component<Proportional>("proportional", 1, "Each domain's share is its number of windows"));
