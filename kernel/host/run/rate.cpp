#include "kernel/host/run/rate.h"

#include <cmath>

namespace moiety::host {

void Rate::see(double done, double at_seconds) {
  if (seen_ && done > done_ && at_seconds > at_) {
    const double span = at_seconds - at_;
    const double now = (done - done_) / span;
    constexpr double kMemory = 10;
    rate_ = rate_ ? *rate_ + (1 - std::exp(-span / kMemory)) * (now - *rate_) : now;
  }
  // A phase that counts anew begins a new measurement.
  if (!seen_ || done != done_) at_ = at_seconds;
  seen_ = true;
  done_ = done;
}

std::optional<double> Rate::seconds_for(double units) const {
  if (!rate_ || *rate_ <= 0 || units < 0) return std::nullopt;
  return units / *rate_;
}

void Durations::ended(const std::string& stage_name, double seconds, double flops) {
  auto& mean = by_name_[stage_name];
  ++mean.n;
  mean.sum += seconds;
  if (flops > 0) {
    seconds_ += seconds;
    flops_ += flops;
  }
}

std::optional<double> Durations::expect(const std::string& stage_name, double flops) const {
  if (const auto found = by_name_.find(stage_name); found != by_name_.end()) return found->second.sum / found->second.n;
  if (flops > 0 && flops_ > 0) return flops * seconds_ / flops_;
  return std::nullopt;
}

}  // namespace moiety::host
