// A stage that waited for results of others, once they are known: its text is read again with them.
#include <fmt/format.h>

#include "kernel/base/text.h"
#include "kernel/host/recipe/quantities.h"
#include "kernel/host/recipe/reference.h"
#include "kernel/host/recipe/stages.h"
#include "kernel/host/recipe/toml_text.h"

namespace moiety::host {
namespace {

/// "${cse.clusters} is 1": what an error about the text of a stage is due to.
std::string values_text(const RecipeStage& stage, const ResultValues& values) {
  std::vector<std::string> parts;
  for (const auto& read : stage.results) {
    const auto found = values.find({read.stage, read.result});
    if (found == values.end()) continue;
    std::string part = fmt::format("${{{}.{}}} is {}", read.stage, read.result, toml_inline(found->second));
    if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(std::move(part));
  }
  return join(parts, ", ");
}

/// `${consistency.peak}` → "8%".
std::string point_with(const std::string& snapshot, const ResultValues& values, Diagnostics& diagnostics) {
  Value text = Value::of(snapshot);
  const auto is_known = [](const std::string&) { return true; };
  const auto part_of = [&](const std::vector<std::string>& path) -> std::optional<Value> {
    const auto found = values.find({path[0], path.back()});
    return found == values.end() ? std::nullopt : std::optional<Value>(found->second);
  };
  expand_axis_references(text, is_known, part_of, diagnostics);
  std::string problem;
  const auto point = text.is_text() ? parse_point(text.text, problem) : std::nullopt;
  return point.value_or("");
}

}  // namespace

Result<RecipeStage> form_stage(const Recipe& recipe, const Catalog& catalog, const RecipeArm& arm, const RecipeStage& waiting,
                               const ResultValues& values) {
  Sources sources;
  Diagnostics diagnostics(sources);
  std::vector<std::string> arm_names;
  for (const auto& one : recipe.arms) arm_names.push_back(one.name);
  const StageScope scope{catalog, recipe.options, diagnostics, *arm.root, recipe.axes, arm_names, true, &recipe.domains, &values};
  auto read = resolve_stage(waiting.name, scope, waiting.labels);
  if (!read || diagnostics.any()) {
    const std::string problem = diagnostics.any() ? diagnostics.list().front().message : "its text cannot be read";
    return fail(ErrorKind::failed, problem + " (" + values_text(waiting, values) + ")");
  }
  RecipeStage formed = waiting;
  formed.results.clear();
  formed.config = std::move(read->config);
  formed.components = std::move(read->components);
  formed.text = std::move(read->text);
  // Which stages are read was known before; which states of them may not have been.
  for (auto& [input, stages] : formed.inputs) {
    for (auto& one : stages) {
      if (is_waiting(Value::of(one.snapshot))) one.snapshot = point_with(one.snapshot, values, diagnostics);
    }
  }
  if (diagnostics.any())
    return fail(ErrorKind::failed, diagnostics.list().front().message + " (" + values_text(waiting, values) + ")");
  return formed;
}

}  // namespace moiety::host
