#include "kernel/engine/stages/stage_report.h"

#include <fmt/format.h>

#include <cmath>

#include "kernel/base/text.h"

namespace moiety::engine {

StageReport::StageReport(const Instance& instance, Series& series, nlohmann::json& results, std::int64_t step,
                         registry::Labels more)
    : instance_(instance), series_(series), results_(results), step_(step), more_(std::move(more)) {}

void StageReport::refuse(const std::string& what) const { throw ComponentFailure(instance_.name, "report", what); }

const Output& StageReport::declared(std::string_view name, bool is_result) const {
  for (std::size_t i = 0; i < instance_.entry->output_count; ++i) {
    const Output& output = instance_.entry->outputs[i];
    if (name == output.name && !output.is_loss && output.is_result == is_result) return output;
  }
  refuse(fmt::format("the {} `{}` was not declared", is_result ? "result" : "metric", name));
}

void StageReport::metric(std::string_view name, double value, const Labels& labels) {
  const Output& output = declared(name, false);
  std::vector<std::string> axes;
  for (const auto& axis : split(output.axes, ',')) axes.emplace_back(trimmed(axis));
  registry::Labels all = more_;
  for (const auto& [axis, label] : labels) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) refuse(fmt::format("`{}` has no axis `{}`", name, axis));
    all[axis] = label;
  }
  std::string row = output.name;
  for (const auto& [axis, label] : all) row += "\n" + axis + "=" + label;
  if (!seen_.insert(row).second) refuse(fmt::format("the metric `{}` was given twice with the same labels", name));
  series_.log(output.name, step_, value, all);
}

void StageReport::keep(std::string_view name, nlohmann::json value) { results_[declared(name, true).name] = std::move(value); }

void StageReport::result(std::string_view name, double value) {
  if (!std::isfinite(value)) refuse(fmt::format("the result `{}` is {}", name, number(value)));
  keep(name, value);
}

void StageReport::result(std::string_view name, const Shares& value) {
  nlohmann::json table = nlohmann::json::object();
  for (const auto& [key, share] : value) {
    if (!std::isfinite(share)) refuse(fmt::format("the result `{}` is {} for {}", name, number(share), key));
    table[key] = share;
  }
  keep(name, std::move(table));
}

void StageReport::result(std::string_view name, const std::vector<std::string>& value) { keep(name, value); }

void report_all(const Instance& instance, Series& series, nlohmann::json& results, std::int64_t step) {
  StageReport report(instance, series, results, step);
  call("report", instance, [&] { instance.component->report(report); });
  for (const Instance& part : instance.parts) report_all(part, series, results, step);
}

}  // namespace moiety::engine
