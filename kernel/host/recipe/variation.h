// Along which axes a stage of one arm varies: those its text mentions, and those of the stages it reads.
#ifndef MOIETY_KERNEL_HOST_RECIPE_VARIATION_H_
#define MOIETY_KERNEL_HOST_RECIPE_VARIATION_H_

#include <map>
#include <set>
#include <string>

#include "kernel/host/recipe/stages.h"

namespace moiety::host {

class Variation {
 public:
  /// `scope` must outlive it; its root has the mentions of axes in it.
  explicit Variation(const StageScope& scope) : scope_(scope) {}

  const std::set<std::string>& of(const std::string& stage);

 private:
  std::set<std::string> own(const Value& table, const VerbDeclaration* verb) const;
  void add_read(const Value& item, std::set<std::string>& axes);
  void add_inputs(const Value& table, const std::vector<ParameterDeclaration>& declared, std::set<std::string>& axes);
  void add_results(const Value& value, std::set<std::string>& axes);

  const StageScope& scope_;
  std::map<std::string, std::set<std::string>> known_;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_VARIATION_H_
