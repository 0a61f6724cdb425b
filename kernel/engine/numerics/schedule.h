// The learning rate as a function of the step.
#ifndef MOIETY_KERNEL_ENGINE_NUMERICS_SCHEDULE_H_
#define MOIETY_KERNEL_ENGINE_NUMERICS_SCHEDULE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "moiety/params.h"

namespace moiety::engine {

MOIETY_CHOICE(Decay, cosine, none);

struct Schedule {
  double warmup = 0.02;  ///< share of the steps in which the rate rises linearly
  Decay decay = Decay::cosine;
  double floor = 0.1;  ///< of the peak, at the end of the cosine

  /// Factor on the peak rate in step `step` of `steps`, from 0.
  double factor(std::int64_t step, std::int64_t steps) const {
    const double rising = std::ceil(warmup * static_cast<double>(steps));
    if (static_cast<double>(step) < rising) return static_cast<double>(step + 1) / rising;
    if (decay == Decay::none) return 1;
    const double left = std::max(1.0, static_cast<double>(steps) - rising);
    const double done = std::min(1.0, (static_cast<double>(step) - rising) / left);
    return floor + (1 - floor) * 0.5 * (1 + std::cos(3.14159265358979323846 * done));
  }
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_NUMERICS_SCHEDULE_H_
