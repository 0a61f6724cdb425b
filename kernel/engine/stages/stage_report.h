// What components report: metrics as rows of the stage's series, results as results of the stage.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_STAGE_REPORT_H_
#define MOIETY_KERNEL_ENGINE_STAGES_STAGE_REPORT_H_

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "kernel/engine/checkpoint/series.h"
#include "kernel/engine/plugins/component_set.h"
#include "moiety/report.h"

namespace moiety::engine {

/// Of one component. A name that it did not declare, an axis that the output does not have, one row given twice or a result that
/// is not finite is a ComponentFailure.
class StageReport final : public Report {
 public:
  /// `more`: labels that every row gets, such as the snapshot measured.
  StageReport(const Instance& instance, Series& series, nlohmann::json& results, std::int64_t step, registry::Labels more = {});

  void metric(std::string_view name, double value, const Labels& labels = {}) override;
  void result(std::string_view name, double value) override;
  void result(std::string_view name, const Shares& value) override;
  void result(std::string_view name, const std::vector<std::string>& value) override;

 private:
  const Output& declared(std::string_view name, bool is_result) const;
  void keep(std::string_view name, nlohmann::json value);
  [[noreturn]] void refuse(const std::string& what) const;

  const Instance& instance_;
  Series& series_;
  nlohmann::json& results_;
  std::int64_t step_;
  registry::Labels more_;
  std::set<std::string> seen_;
};

/// report() of a component and of its parts.
void report_all(const Instance& instance, Series& series, nlohmann::json& results, std::int64_t step);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_STAGE_REPORT_H_
