// Where a component puts numbers: metrics for people and claims, results for other stages. Torch-free.
#ifndef MOIETY_REPORT_H_
#define MOIETY_REPORT_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "moiety/params.h"

namespace moiety {

/// Names are those declared in `outputs`; another one is an error that names the component.
class Report {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;  ///< recorded axis → label: {{"domain", "law"}}
  virtual ~Report() = default;
  virtual void metric(std::string_view name, double value, const Labels& labels = {}) = 0;
  virtual void result(std::string_view name, double value) = 0;
  virtual void result(std::string_view name, const Shares& value) = 0;
  virtual void result(std::string_view name, const std::vector<std::string>& value) = 0;
};

}  // namespace moiety

#endif  // MOIETY_REPORT_H_
