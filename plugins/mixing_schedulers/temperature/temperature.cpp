// Temperature sampling: q_i ∝ p_i^(1/τ), with p_i the domain's part of all windows. τ = 1 is proportional, a large τ comes near
// equal shares. In use: mBERT 1.43, XLM 2, XLM-R and mT5 3.33.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "moiety/mixing_scheduler.h"

namespace {

using namespace moiety;

class Temperature final : public MixingScheduler {
 public:
  struct Options {
    double temperature;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::temperature>("temperature", 3.3, "1: as many as there are; larger: nearer to equal shares").above(0)};

  explicit Temperature(const Options& options) : options_(options) {}

  void start(const Domains& domains) override {
    const auto largest = std::max_element(domains.windows.begin(), domains.windows.end());
    if (largest == domains.windows.end() || *largest < 1) throw std::invalid_argument("no domain has a training window");
    shares_.clear();
    for (const std::int64_t windows : domains.windows) {
      const double part = static_cast<double>(windows) / static_cast<double>(*largest);
      shares_.push_back(windows > 0 ? std::pow(part, 1 / options_.temperature) : 0.0);
    }
  }
  Mixture mixture(const Progress&) const override { return {shares_, {}}; }

 private:
  Options options_;
  std::vector<double> shares_;
};

}  // namespace

MOIETY_PLUGIN("temperature", "1.0.0", "Temperature sampling",
              component<Temperature>("temperature", 1, "Shares as sizes to the power of 1 / temperature",
                                     "Devlin, multilingual BERT, 2018; Conneau et al., XLM-R, ACL 2020"));
