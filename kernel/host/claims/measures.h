// [measure]: expressions over metrics with a name, for use in claims.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_MEASURES_H_
#define MOIETY_KERNEL_HOST_CLAIMS_MEASURES_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernel/host/claims/expression.h"
#include "kernel/host/claims/statement_text.h"

namespace moiety::host {

struct Measure {
  std::unique_ptr<StatementText> text;
  std::shared_ptr<Expression> expression;  ///< nothing when its text could not be read
};

class Measures {
 public:
  /// `root` and `diagnostics` must outlive it. What is no expression is told.
  Measures(const Value& root, Diagnostics& diagnostics);
  /// Nothing when there is no measure of this name.
  const Measure* find(const std::string& name) const;
  std::vector<std::string> names() const;

 private:
  std::map<std::string, Measure> measures_;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_MEASURES_H_
