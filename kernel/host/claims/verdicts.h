// What numbers per unit (a seed, or seeds that share a model) decide: comparisons, and how something goes along an axis.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_VERDICTS_H_
#define MOIETY_KERNEL_HOST_CLAIMS_VERDICTS_H_

#include <vector>

#include "kernel/host/claims/claim.h"
#include "registry/statistics.h"

namespace moiety::host {

/// By the interval of the mean, or by whether all units agree (at least five).
registry::Decision decide_values(const std::vector<double>& values, const registry::Statement& statement, double confidence,
                                 bool all_units);

/// What stands at each label of an axis, in order: label → unit → value.
struct Course {
  std::vector<std::vector<double>> at;
  double by = 0, within = 0;
  bool exact = false;  ///< counts: one unit decides
};
/// The one number a unit that people see: last − first; the inner extreme − the higher (lower) end; largest − smallest.
std::vector<double> course_values(Relation relation, const Course& course);
registry::Verdict decide_course(Relation relation, const Course& course, double confidence, bool all_units);

/// How many of these hold after Holm: `holds(part, confidence)` is monotone in the confidence.
template <typename Holds>
std::size_t count_after_holm(std::size_t parts, double confidence, const Holds& holds) {
  std::size_t sure = 0;
  while (sure < parts) {
    // The (sure + 1)-th smallest p is compared with α / (parts − sure).
    const double level = 1 - (1 - confidence) / static_cast<double>(parts - sure);
    std::size_t count = 0;
    for (std::size_t i = 0; i < parts; ++i) count += holds(i, level) ? 1 : 0;
    if (count <= sure) break;
    ++sure;
  }
  return sure;
}

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_VERDICTS_H_
