// For unit tests of plugins: keeps what a component reports, and says which names were not declared.
#ifndef MOIETY_TESTING_REPORTS_H_
#define MOIETY_TESTING_REPORTS_H_

#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "moiety/report.h"
#include "moiety_testing/testing.h"

namespace moiety::testing {

/// Metrics by name and labels, results by name. A name that the component of this name does not declare, a label that is no
/// declared axis, and a number given twice are errors.
class TestReport final : public Report {
 public:
  explicit TestReport(std::string_view component) : entry_(entry(component)) {}

  void metric(std::string_view name, double value, const Labels& labels = {}) override {
    const Output& output = declared(name, false);
    const std::string axes = ", " + std::string(output.axes) + ",";
    std::map<std::string, std::string> sorted;
    for (const auto& [axis, label] : labels) {
      if (axes.find(", " + axis + ",") == std::string::npos) throw std::invalid_argument(axis + " is no axis of " + output.name);
      sorted[axis] = label;
    }
    if (!metrics_.emplace(key(name, sorted), value).second) throw std::invalid_argument(key(name, sorted) + " is given twice");
  }
  void result(std::string_view name, double value) override { numbers_[declared(name, true).name] = value; }
  void result(std::string_view name, const Shares& value) override { shares_[declared(name, true).name] = value; }
  void result(std::string_view name, const std::vector<std::string>& value) override {
    texts_[declared(name, true).name] = value;
  }

  /// "loss", {{"domain", "law"}}: the number, or an exception that lists what there is.
  double value(const std::string& name, const std::map<std::string, std::string>& labels = {}) const {
    const auto found = metrics_.find(key(name, labels));
    if (found != metrics_.end()) return found->second;
    std::string there;
    for (const auto& one : metrics_) there += " " + one.first;
    throw std::out_of_range("no metric " + key(name, labels) + " among" + there);
  }
  std::size_t metrics() const { return metrics_.size(); }
  double number(const std::string& name) const { return numbers_.at(name); }
  const Shares& shares(const std::string& name) const { return shares_.at(name); }
  const std::vector<std::string>& texts(const std::string& name) const { return texts_.at(name); }
  bool empty() const { return metrics_.empty() && numbers_.empty() && shares_.empty() && texts_.empty(); }

 private:
  static std::string key(std::string_view name, const std::map<std::string, std::string>& labels) {
    std::string text(name);
    for (const auto& [axis, label] : labels) text += "[" + axis + "=" + label + "]";
    return text;
  }
  const Output& declared(std::string_view name, bool is_result) const {
    for (std::size_t i = 0; i < entry_.output_count; ++i) {
      const Output& output = entry_.outputs[i];
      if (name == output.name && output.is_result == is_result && !output.is_loss) return output;
    }
    throw std::invalid_argument(std::string(name) + " is not declared");
  }

  const ComponentEntry& entry_;
  std::map<std::string, double> metrics_, numbers_;
  std::map<std::string, Shares> shares_;
  std::map<std::string, std::vector<std::string>> texts_;
};

}  // namespace moiety::testing

#endif  // MOIETY_TESTING_REPORTS_H_
