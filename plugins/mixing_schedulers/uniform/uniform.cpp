// Equal shares for all domains that have windows ("stratified" sampling): the limit of temperature sampling.
#include <stdexcept>

#include "moiety/mixing_scheduler.h"

namespace {

using namespace moiety;

class Uniform final : public MixingScheduler {
 public:
  void start(const Domains& domains) override {
    shares_.clear();
    bool any = false;
    for (const std::int64_t windows : domains.windows) {
      shares_.push_back(windows > 0 ? 1.0 : 0.0);
      any = any || windows > 0;
    }
    if (!any) throw std::invalid_argument("no domain has a training window");
  }
  Mixture mixture(const Progress&) const override { return {shares_, {}}; }

 private:
  std::vector<double> shares_;
};

}  // namespace

MOIETY_PLUGIN("uniform-mixing", "1.0.0", "Equal shares",
              component<Uniform>("uniform", 1, "Every domain that has windows gets the same share"));
