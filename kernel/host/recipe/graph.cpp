// Which stages an arm runs: those that measure, and what they read; each once for every label of the axes it varies along.
#include <fmt/format.h>

#include <algorithm>

#include "kernel/base/text.h"
#include "kernel/host/recipe/reads.h"
#include "kernel/host/recipe/stages.h"
#include "kernel/host/recipe/variation.h"

namespace moiety::host {
namespace {

constexpr std::size_t most_instances = 20000;

class Graph {
 public:
  Graph(const std::string& arm, const StageScope& scope, ArmStages& result)
      : arm_(arm), scope_(scope), result_(result), variation_(scope) {}

  /// All instances of a measuring stage.
  void visit_all(const std::string& name, const Place& place) {
    const auto& axes = variation_.of(name);
    double size = 1;
    for (const auto& axis : axes) size *= static_cast<double>(scope_.axes.find(axis)->elements.size());
    if (size > most_instances) {
      scope_.diagnostics.error(
          place, fmt::format("stage.{} stands for {} combinations of labels in arm `{}`; at most {} are possible", name,
                             number(size), arm_, most_instances));
      result_.broken = true;
      return;
    }
    for (const auto& labels : scope_.axes.combinations(arm_, axes)) visit(name, labels);
  }

  void visit(const std::string& name, const AxisLabels& labels) {
    if (result_.broken && stages_.size() > most_instances) return;
    if (!stages_.insert({name, labels}).second) return;
    result_.reached.insert(name);
    path_.push_back(name);
    auto stage = resolve_stage(name, scope_, labels);
    if (!stage) {
      result_.broken = true;
    } else {
      stage->labels = labels;
      result_.broken = result_.broken || stage->lacks_component;
      for (auto& [input, read] : stage->inputs) read = follow(*stage, input, input_place(*stage, input), read);
      for (auto& read : stage->results) follow_result(*stage, read);
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
  /// The instances that the reads of one input mean for this stage, each visited.
  std::vector<StageRead> follow(const RecipeStage& stage, const std::string& input, const Place& place,
                                const std::vector<StageRead>& read) {
    std::vector<StageRead> result;
    for (const auto& next : read) {
      if (std::find(path_.begin(), path_.end(), next.stage) != path_.end()) {
        circle(next.stage, place);
        continue;
      }
      for (const auto& labels : instances(stage, input, place, next)) {
        visit(next.stage, labels);
        result.push_back({next.stage, labels, next.snapshot});
      }
    }
    return result;
  }

  /// The stage whose result a text mentions, at the labels of its reader.
  void follow_result(const RecipeStage& stage, ResultRead& read) {
    const std::string name = "${" + read.stage + "." + read.result + "}";
    const auto followed = follow(stage, name, read.place, {{read.stage, {}}});
    if (followed.empty()) return;
    read.labels = followed.front().labels;
    const auto* source = find(read.stage, read.labels);
    if (source == nullptr || source->flawed) return;
    const auto known = source->result_names();
    if (std::find(known.begin(), known.end(), read.result) != known.end()) return;
    scope_.diagnostics.error(
        read.place, fmt::format("`{}`: stage.{} ({}) has no result `{}`", name, read.stage, source->verb->name, read.result),
        did_you_mean(read.result, known), known.empty() ? "it has none" : "results: " + join(known, ", "));
  }

  const RecipeStage* find(const std::string& name, const AxisLabels& labels) const {
    const auto found = std::find_if(result_.stages.begin(), result_.stages.end(),
                                    [&](const RecipeStage& one) { return one.name == name && one.labels == labels; });
    return found == result_.stages.end() ? nullptr : &*found;
  }

  /// The labels at which one stage is read: those of its reader, unless the text selects others.
  std::vector<AxisLabels> instances(const RecipeStage& stage, const std::string& input, const Place& place,
                                    const StageRead& read) {
    std::vector<AxisLabels> result = {{}};
    for (const auto& name : variation_.of(read.stage)) {
      const auto selected = read.labels.find(name);
      std::vector<std::string> labels;
      if (selected == read.labels.end()) {
        const auto own = stage.labels.find(name);
        if (own != stage.labels.end()) labels.push_back(own->second);
      } else if (selected->second == all_labels) {
        labels = scope_.axes.find(name)->labels();
      } else if (const auto* element = scope_.axes.find(name)->element(selected->second)) {
        labels.push_back(element->label);
      }
      std::vector<AxisLabels> longer;
      for (const auto& before : result) {
        for (const auto& label : labels) {
          longer.push_back(before);
          longer.back()[name] = label;
        }
      }
      result = std::move(longer);
    }
    result.erase(
        std::remove_if(result.begin(), result.end(), [&](const AxisLabels& labels) { return scope_.axes.skipped(arm_, labels); }),
        result.end());
    if (check_selection(stage, input, place, read) && result.empty()) {
      result_.broken = true;
      scope_.diagnostics.error(place, fmt::format("`{}` in stage.{}: `skip` leaves nothing of stage.{} to read in arm `{}`",
                                                  input, stage.name, read.stage, arm_));
    }
    return result;
  }

  bool check_selection(const RecipeStage& stage, const std::string& input, const Place& place, const StageRead& read) {
    const auto& varies = variation_.of(read.stage);
    bool good = true;
    for (const auto& [name, label] : read.labels) {
      if (varies.count(name) == 0) {
        good = false;
        const std::vector<std::string> known(varies.begin(), varies.end());
        scope_.diagnostics.error(
            place, fmt::format("`{}` in stage.{}: stage.{} does not vary along `{}`", input, stage.name, read.stage, name),
            did_you_mean(name, known), known.empty() ? "it has no axes" : "axes: " + join(known, ", "));
      } else if (scope_.axes.find(name)->choice) {
        good = false;
        scope_.diagnostics.error(
            place, fmt::format("`{}` in stage.{}: `{}` is a choice, so what is read is the trial of the same label", input,
                               stage.name, name));
      } else if (label != all_labels && scope_.axes.find(name)->element(label) == nullptr) {
        good = false;
        const auto known = scope_.axes.find(name)->labels();
        scope_.diagnostics.error(place,
                                 fmt::format("`{}` in stage.{}: axis `{}` has no label `{}`", input, stage.name, name, label),
                                 did_you_mean(label, known), known.size() <= 8 ? "labels: " + join(known, ", ") : "");
      }
    }
    result_.broken = result_.broken || !good;
    return good;
  }

  static Place input_place(const RecipeStage& stage, const std::string& input) {
    const Value* value = stage.text.find_path(split(input, '.'));
    return value != nullptr ? value->place : stage.place;
  }

  void circle(const std::string& name, const Place& place) {
    result_.broken = true;
    std::vector<std::string> way(std::find(path_.begin(), path_.end(), name), path_.end());
    // The same circle is met from each of its stages in other arms: one message, told from its smallest name on.
    std::rotate(way.begin(), std::min_element(way.begin(), way.end()), way.end());
    way.push_back(way.front());
    scope_.diagnostics.error(place, "stages read each other in a circle: " + join(way, " reads "));
  }

  /// A stage that measures a task and does not name it measures the task of the model it reads.
  void inherit_task(RecipeStage& stage) {
    stage.model_task = stage.task;
    if (!stage.task.empty()) return;
    const bool measures_task = stage.verb->uses_task(stage.config);
    bool excused = stage.verb->needs_task;  // its own `task` is missing or wrong: told already
    const auto* from = stage.input("from");
    for (const auto& one : from != nullptr ? *from : std::vector<StageRead>{}) {
      const auto* source = find(one.stage, one.labels);
      if (source == nullptr) continue;
      if (stage.model_task.empty()) stage.model_task = source->model_task;
      excused = excused || source->flawed || source->verb->uses_task(source->config);
    }
    // Sets of windows may be of a task or of text: as the model that is measured.
    if (stage.config.contains("on") && stage.config.at("on").is_object()) stage.task = stage.model_task;
    if (!measures_task) return;
    stage.task = stage.model_task;
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

  const std::string arm_;
  const StageScope& scope_;
  ArmStages& result_;
  Variation variation_;
  std::set<std::pair<std::string, AxisLabels>> stages_;
  std::vector<std::string> path_;
};

}  // namespace

ArmStages resolve_stages(const std::string& arm, const Place& arm_place, const StageScope& scope) {
  ArmStages result;
  const Value* stages = scope.root.find("stage");
  Graph graph(arm, scope, result);
  bool measures = false;
  for (const auto* entry : stages->in_written_order()) {
    const auto& [name, member] = *entry;
    const Value* verb_name = member.value.find("do");
    const VerbDeclaration* verb = verb_name != nullptr && verb_name->is_text() ? scope.catalog.verb(verb_name->text) : nullptr;
    if (verb == nullptr) {
      // Whether it measures is unknown: its error is told once it is read.
      resolve_stage(name, scope, {});
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
    graph.visit_all(name, member.key);
  }
  if (!measures && !result.broken) {
    scope.diagnostics.error(arm_place,
                            fmt::format("arm `{}` measures nothing: it has no stage that does `evaluate` or the like", arm));
  }
  return result;
}

}  // namespace moiety::host
