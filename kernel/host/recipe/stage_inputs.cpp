// Which stages, and which states of them, a stage reads.
#include <fmt/format.h>

#include <algorithm>

#include "kernel/base/text.h"
#include "kernel/host/recipe/quantities.h"
#include "kernel/host/recipe/reads.h"
#include "kernel/host/recipe/reference.h"
#include "kernel/host/recipe/stage_reader.h"

namespace moiety::host {

void StageReader::read_inputs() {
  const Value* stages = scope_.root.find("stage");
  std::vector<std::string> names;
  for (const auto& [key, member] : stages->members) {
    if (key != stage_.name) names.push_back(key);
  }
  for (const auto& input : stage_.verb->inputs) {
    const Value* value = table_.find(input.name);
    if (value == nullptr) {
      if (input.required && scope_.complete) {
        diagnostics_.error(context_.place, fmt::format("{} needs `{}`: the stage it reads", context_.in(), input.name), "",
                           context_.all_keys);
      }
      continue;
    }
    copy(input.name);
    const bool list = value->is(Value::Type::array);
    if (list && !input.list) {
      diagnostics_.error(value->place, fmt::format("`{}` in {} names one stage, not a list", input.name, context_.in()));
      continue;
    }
    if (list && value->items.empty()) {
      diagnostics_.error(value->place, fmt::format("`{}` in {} is an empty list", input.name, context_.in()));
      continue;
    }
    std::vector<StageRead> read;
    const std::vector<Value> single = {*value};
    for (const Value& item : list ? value->items : single) {
      if (auto one = read_input(item, input, {}, names)) read.push_back(std::move(*one));
    }
    if (!read.empty()) stage_.inputs.emplace_back(input.name, std::move(read));
  }
  for (const auto& used : used_inputs_) {
    auto one = read_input(used.name, {used.slot, used.accepts, true, false}, used.references, names);
    if (one) stage_.inputs.emplace_back(used.slot, std::vector<StageRead>{std::move(*one)});
  }
  read_points();
}

std::optional<StageRead> StageReader::read_input(const Value& item, const InputDeclaration& input,
                                                 std::vector<std::string> references, const std::vector<std::string>& names) {
  const auto tell = [&](const std::string& message, const std::string& hint = {}) {
    diagnostics_.error(item.place, fmt::format("`{}` in {}{}", input.name, context_.in(), message), hint);
    return std::nullopt;
  };
  references.push_back(item.reference.substr(0, item.reference.find('@')));
  std::set<std::string> mentioned;
  for (const auto& reference : references) collect_axes(Value::of(reference), scope_.axes, mentioned);
  if (!mentioned.empty()) {
    return tell(fmt::format(": what a stage reads is changed by arms, never by an axis (`{}`)", *mentioned.begin()),
                "branch(axis=label) reads one label, branch(axis=*) all of them");
  }
  if (!item.is_text()) return tell(fmt::format(" must be the name of a stage, but this is {}", type_name(item.type)));
  if (is_waiting(Value::of(item.text.substr(0, item.text.find('@')))))
    return tell(": which stage is read cannot be the result of another one");
  std::string problem;
  auto read = parse_read(item.text, problem);
  if (!read) return tell(": " + problem);
  const Value* source = scope_.root.find("stage")->find(read->stage);
  if (source == nullptr) {
    diagnostics_.error(item.place, fmt::format("unknown stage `{}` for `{}` in {}", read->stage, input.name, context_.in()),
                       did_you_mean(read->stage, names));
    return std::nullopt;
  }
  for (const auto& [axis, label] : read->selected) {
    if (label == all_labels && !input.list) return tell(fmt::format(" names one stage, not all labels of `{}`", axis));
  }
  const Value* verb_name = source->find("do");
  const auto* verb = verb_name != nullptr && verb_name->is_text() ? scope_.catalog.verb(verb_name->text) : nullptr;
  if (verb != nullptr && !input.accepts.empty() && verb->leaves != input.accepts) {
    return tell(fmt::format(" reads a {}, but stage.{} ({}) leaves {}", input.accepts, read->stage, verb->name,
                            verb->leaves == "none" ? "nothing to read" : "a " + verb->leaves));
  }
  StageRead result{read->stage, std::move(read->selected), read->snapshot};
  if (result.snapshot.empty()) return result;
  if (verb != nullptr && !verb->trains())
    return tell(fmt::format(": stage.{} ({}) does not train, so it has no state at {}", read->stage, verb->name, read->snapshot));
  if (is_waiting(Value::of(result.snapshot))) return result;
  const auto point = parse_point(result.snapshot, problem);
  if (!point) return tell(": " + problem);
  result.snapshot = *point;
  return result;
}

void StageReader::read_points() {
  const Value* at = table_.find("at");
  const auto points = stage_.config.find("at");
  if (!stage_.verb->measures || at == nullptr || points == stage_.config.end() || !points->is_array()) return;
  const auto from = std::find_if(stage_.inputs.begin(), stage_.inputs.end(), [](const auto& one) { return one.first == "from"; });
  if (from == stage_.inputs.end()) return;
  const auto tell = [&](const Place& place, const std::string& message) {
    diagnostics_.error(place, fmt::format("`at` in {}{}", context_.in(), message));
  };
  const auto& labels = from->second.front().labels;
  const bool many = std::any_of(labels.begin(), labels.end(), [](const auto& one) { return one.second == all_labels; });
  if (many || from->second.size() != 1 || !from->second.front().snapshot.empty()) {
    tell(at->place, ": `from` must be one stage, without a point of its own");
    return;
  }
  const StageRead source = from->second.front();
  const Value* verb_name = scope_.root.find("stage")->find(source.stage)->find("do");
  const auto* verb = verb_name != nullptr && verb_name->is_text() ? scope_.catalog.verb(verb_name->text) : nullptr;
  if (verb != nullptr && !verb->trains()) {
    tell(at->place, fmt::format(": stage.{} ({}) does not train, so it has no states on the way", source.stage, verb->name));
    return;
  }
  from->second.clear();
  for (std::size_t i = 0; i < points->size(); ++i) {
    nlohmann::json& written = (*points)[i];
    const Place place = at->is(Value::Type::array) && i < at->items.size() ? at->items[i].place : at->place;
    if (!written.is_string()) continue;
    std::string problem, point = written.get<std::string>();
    if (!is_waiting(Value::of(point))) {
      const auto parsed = parse_point(point, problem);
      if (!parsed) {
        tell(place, ": " + problem);
        continue;
      }
      point = *parsed;
    }
    const auto same = [&](const StageRead& one) { return one.snapshot == point; };
    if (std::any_of(from->second.begin(), from->second.end(), same)) {
      tell(place, fmt::format(": {} stands twice", point));
      continue;
    }
    written = point;
    from->second.push_back({source.stage, source.labels, point});
  }
}

}  // namespace moiety::host
