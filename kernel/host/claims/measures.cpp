#include "kernel/host/claims/measures.h"

#include <fmt/format.h>

namespace moiety::host {

Measures::Measures(const Value& root, Diagnostics& diagnostics) {
  const auto found = root.members.find("measure");
  if (found == root.members.end()) return;
  if (!found->second.value.is_table()) {
    diagnostics.error(found->second.key, "[measure] is a table of named expressions, as in gain = \"loss(a) - loss(b)\"");
    return;
  }
  for (const auto& [name, member] : found->second.value.members) {
    const std::string path = "measure." + name;
    if (!member.value.is_text()) {
      diagnostics.error(member.value.place, fmt::format("{} must be text: an expression over metrics", path));
      continue;
    }
    Measure measure{std::make_unique<StatementText>(member.value, path, diagnostics), nullptr};
    ParseProblem problem;
    measure.expression = parse_expression(member.value.text, problem);
    if (measure.expression == nullptr) measure.text->error(problem.begin, problem.end, problem.message, problem.hint);
    measures_.emplace(name, std::move(measure));
  }
}

const Measure* Measures::find(const std::string& name) const {
  const auto found = measures_.find(name);
  return found == measures_.end() ? nullptr : &found->second;
}

std::vector<std::string> Measures::names() const {
  std::vector<std::string> result;
  for (const auto& [name, measure] : measures_) result.push_back(name);
  return result;
}

}  // namespace moiety::host
