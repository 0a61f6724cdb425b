// Which stages an arm runs: those that measure, and what they read.
#include <fmt/format.h>

#include <algorithm>

#include "kernel/base/text.h"
#include "kernel/host/recipe/stages.h"

namespace moiety::host {
namespace {

class Graph {
 public:
  Graph(const StageScope& scope, ArmStages& result) : scope_(scope), result_(result) {}

  void visit(const std::string& name) {
    if (result_.reached.count(name) != 0) return;
    result_.reached.insert(name);
    path_.push_back(name);
    auto stage = resolve_stage(name, scope_);
    if (!stage) {
      result_.broken = true;
    } else {
      for (const auto& [input, read] : stage->inputs) {
        for (const auto& next : read) {
          if (std::find(path_.begin(), path_.end(), next) != path_.end()) {
            circle(next, *stage, input);
          } else {
            visit(next);
          }
        }
      }
      for (const auto& input : stage->verb->inputs) {
        const bool read =
            std::any_of(stage->inputs.begin(), stage->inputs.end(), [&](const auto& one) { return one.first == input.name; });
        if (input.required && !read) result_.broken = true;
      }
      inherit_task(*stage);
      check_measures(*stage);
      result_.stages.push_back(std::move(*stage));
    }
    path_.pop_back();
  }

 private:
  void circle(const std::string& name, const RecipeStage& stage, const std::string& input) {
    result_.broken = true;
    std::vector<std::string> way(std::find(path_.begin(), path_.end(), name), path_.end());
    // The same circle is met from each of its stages in other arms: one message, told from its smallest name on.
    std::rotate(way.begin(), std::min_element(way.begin(), way.end()), way.end());
    way.push_back(way.front());
    const Value* value = stage.text.find(input);
    scope_.diagnostics.error(value != nullptr ? value->place : stage.place,
                             "stages read each other in a circle: " + join(way, " reads "));
  }

  /// A stage that measures a task and does not name it measures the task of the model it reads.
  void inherit_task(RecipeStage& stage) {
    if (!stage.task.empty() || !stage.verb->uses_task(stage.config)) return;
    bool excused = stage.verb->needs_task;  // its own `task` is missing or wrong: told already
    for (const auto& [input, read] : stage.inputs) {
      for (const auto& name : read) {
        const auto source = std::find_if(result_.stages.begin(), result_.stages.end(),
                                         [&](const RecipeStage& other) { return other.name == name; });
        if (source == result_.stages.end()) continue;
        if (stage.task.empty()) stage.task = source->task;
        excused = excused || source->verb->uses_task(source->config);
      }
    }
    if (stage.task.empty() && !excused && !result_.broken) {
      scope_.diagnostics.error(stage.place, fmt::format("stage.{} ({}) measures a task, but none of the stages it reads has one",
                                                        stage.name, stage.verb->name));
    }
  }

  void check_measures(const RecipeStage& stage) {
    if (!stage.verb->measures || stage.verb->metrics.empty()) return;
    std::vector<std::string> keys;
    for (const auto& metric : stage.verb->metrics) {
      if (metric.exists(stage.config) || stage.text.find(metric.when) != nullptr) return;
      if (std::find(keys.begin(), keys.end(), metric.when) == keys.end()) keys.push_back(metric.when);
    }
    // A key with an error in it was written all the same.
    const Value* stages = scope_.root.find("stage");
    for (const auto& key : keys) {
      if (stages->find(stage.name)->find(key) != nullptr) return;
    }
    std::string text;
    for (std::size_t i = 0; i < keys.size(); ++i) text += (i == 0 ? "`" : i + 1 == keys.size() ? " or `" : ", `") + keys[i] + "`";
    scope_.diagnostics.error(stage.place,
                             fmt::format("stage.{} ({}) measures nothing: it needs {}", stage.name, stage.verb->name, text));
  }

  const StageScope& scope_;
  ArmStages& result_;
  std::vector<std::string> path_;
};

}  // namespace

ArmStages resolve_stages(const std::string& arm, const Place& arm_place, const StageScope& scope) {
  ArmStages result;
  const Value* stages = scope.root.find("stage");
  Graph graph(scope, result);
  bool measures = false;
  for (const auto* entry : stages->in_written_order()) {
    const auto& [name, member] = *entry;
    const Value* verb_name = member.value.find("do");
    const VerbDeclaration* verb = verb_name != nullptr && verb_name->is_text() ? scope.catalog.verb(verb_name->text) : nullptr;
    if (verb == nullptr) {
      // Whether it measures is unknown: its error is told once it is read.
      resolve_stage(name, scope);
      result.broken = true;
      continue;
    }
    if (!verb->measures) continue;
    if (const Value* arms = member.value.find("arms")) {
      const std::vector<Value> single = {*arms};
      const auto& list = arms->is(Value::Type::array) ? arms->items : single;
      if (std::none_of(list.begin(), list.end(), [&](const Value& item) { return item.text == arm; })) continue;
    }
    measures = true;
    graph.visit(name);
  }
  if (!measures && !result.broken) {
    scope.diagnostics.error(arm_place,
                            fmt::format("arm `{}` measures nothing: it has no stage that does `evaluate` or the like", arm));
  }
  return result;
}

}  // namespace moiety::host
