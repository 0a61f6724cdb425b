#include "kernel/host/recipe/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "kernel/base/text.h"
#include "kernel/host/recipe/homes.h"
#include "kernel/host/recipe/quantities.h"
#include "kernel/host/recipe/reads.h"
#include "kernel/host/recipe/reference.h"

namespace moiety::host {
namespace {

const char* const default_of_stages = "default of every stage";

std::vector<ParameterDeclaration> common_parameters() {
  ParameterDeclaration threads;
  threads.name = "threads";
  threads.type = "integer";
  threads.fallback = 1;
  threads.low = 1;
  threads.high = 1024;
  ParameterDeclaration device;
  device.name = "device";
  device.type = "choice";
  device.fallback = "cpu";
  device.choices = {"cpu"};
  ParameterDeclaration dtype = device;
  dtype.name = "dtype";
  dtype.fallback = "fp32";
  dtype.choices = {"fp32"};
  return {threads, device, dtype};
}

class StageReader {
 public:
  StageReader(const std::string& name, const Member& member, const StageScope& scope, const AxisLabels& labels)
      : scope_(scope), diagnostics_(scope.diagnostics), labels_(labels), table_(member.value) {
    substitute_axes(table_, scope.axes, labels, diagnostics_);
    if (scope.results != nullptr) substitute_results();
    stage_.name = name;
    stage_.place = member.key;
    context_.path = "stage." + toml_key(name);
    context_.place = member.key;
    context_.complete = scope.complete;
  }

  std::optional<RecipeStage> read() {
    if (!table_.is_table()) {
      diagnostics_.error(table_.place, fmt::format("{} must be a table, but this is {}", context_.path, type_name(table_.type)));
      return std::nullopt;
    }
    if (!read_verb()) return std::nullopt;
    stage_.text = Value::table();
    stage_.text.place = table_.place;
    collect_results(table_);
    read_parameters();
    copy("do");
    read_inputs();
    read_seed();
    read_arms();
    read_model();
    return std::move(stage_);
  }

 private:
  void substitute_results() {
    const auto is_known = [this](const std::string& stage) {
      const auto found = scope_.results->lower_bound({stage, ""});
      return found != scope_.results->end() && found->first.first == stage;
    };
    const auto part_of = [this](const std::vector<std::string>& path) -> std::optional<Value> {
      const auto found = scope_.results->find({path[0], path.size() == 2 ? path[1] : ""});
      return found == scope_.results->end() ? std::nullopt : std::optional<Value>(found->second);
    };
    expand_axis_references(table_, is_known, part_of, diagnostics_);
  }

  /// What its text still mentions of other stages.
  void collect_results(const Value& value) {
    for (const auto& [stage, result] : results_in(value, *scope_.root.find("stage"))) {
      stage_.results.push_back({stage, {}, result, value.place});
    }
    for (const auto& item : value.items) collect_results(item);
    for (const auto& [key, member] : value.members) collect_results(member.value);
  }

  void copy(const std::string& key) {
    const auto found = table_.members.find(key);
    if (found != table_.members.end()) stage_.text.set(key, found->second.value, found->second.key);
  }

  bool read_verb() {
    const Value* verb = table_.find("do");
    const auto names = scope_.catalog.verb_names();
    if (verb == nullptr) {
      diagnostics_.error(context_.place, fmt::format("{} needs `do`: what the stage does", context_.path), "",
                         "verbs: " + join(names, ", "));
      return false;
    }
    if (!verb->is_text()) {
      diagnostics_.error(verb->place,
                         fmt::format("`do` in {} must be text, but this is {}", context_.path, type_name(verb->type)));
      return false;
    }
    stage_.verb = scope_.catalog.verb(verb->text);
    if (stage_.verb == nullptr) {
      diagnostics_.error(verb->place, fmt::format("unknown verb `{}` in {}", verb->text, context_.path),
                         did_you_mean(verb->text, names), "verbs: " + join(names, ", "));
      return false;
    }
    context_.label = verb->text;
    context_.all_keys = "all keys: moiety plugins info " + verb->text;
    context_.default_of = "default of " + verb->text;
    return true;
  }

  void read_parameters() {
    auto declared = stage_.verb->parameters;
    std::set<std::string> own;
    for (const auto& parameter : declared) own.insert(split(parameter.name, '.').front());
    std::set<std::string> common;
    for (auto& parameter : common_parameters()) {
      if (own.count(parameter.name) == 0) common.insert(parameter.name);
    }
    context_.also = common;
    context_.also.insert({"do", "seed"});
    if (stage_.verb->measures) context_.also.insert("arms");
    if (stage_.verb->leaves == "model") context_.also.insert("model");
    for (const auto& input : stage_.verb->inputs) context_.also.insert(input.name);
    context_.optional_tables = stage_.verb->optional_tables();
    measure_all();
    Checker checker(scope_.catalog, diagnostics_, scope_.domains);
    CheckedTable checked = checker.check(table_, declared, context_);
    stage_.config = std::move(checked.config);
    stage_.components = std::move(checked.components);
    used_inputs_ = std::move(checked.inputs);
    for (auto& [key, member] : checked.text.members) stage_.text.members[key] = std::move(member);

    Value part = Value::table();
    std::vector<ParameterDeclaration> common_declared;
    for (auto& parameter : common_parameters()) {
      if (common.count(parameter.name) == 0) continue;
      const auto found = table_.members.find(parameter.name);
      if (found != table_.members.end()) part.members.insert(*found);
      common_declared.push_back(parameter);
    }
    TableContext context = context_;
    context.default_of = default_of_stages;
    CheckedTable general = checker.check(part, common_declared, context);
    for (auto& [key, member] : general.text.members) stage_.text.members[key] = std::move(member);
    const nlohmann::json& read = general.config;
    const auto setting = [&](const char* key) {
      return read.contains(key) ? read[key] : stage_.config.value(key, nlohmann::json());
    };
    if (setting("threads").is_number_integer()) stage_.threads = setting("threads").get<int>();
    if (setting("device").is_string()) stage_.device = setting("device").get<std::string>();
    if (setting("dtype").is_string()) stage_.dtype = setting("dtype").get<std::string>();
    read_task();
    check_budget();
    stage_.lacks_component = lacks_component();
  }

  /// A stage that says neither on which text nor on which sets it measures takes all of the text.
  void measure_all() {
    const auto& metrics = stage_.verb->metrics;
    const auto is_given = [&](const OutputDeclaration& one) { return one.when.empty() || table_.find(one.when) != nullptr; };
    const auto is_data = [](const ParameterDeclaration& one) { return one.name == "data" && one.type == "data"; };
    if (!stage_.verb->measures || metrics.empty() || std::any_of(metrics.begin(), metrics.end(), is_given)) return;
    if (std::none_of(stage_.verb->parameters.begin(), stage_.verb->parameters.end(), is_data)) return;
    table_.set("data", Value::table());
  }

  /// What components measure is not known while one is missing.
  bool lacks_component() const {
    return std::any_of(stage_.verb->parameters.begin(), stage_.verb->parameters.end(), [&](const ParameterDeclaration& one) {
      const auto path = split(one.name, '.');
      return one.type == "component" && path.size() == 1 && !stage_.config.contains(one.name) && table_.find(one.name) != nullptr;
    });
  }

  /// "flops of ARM".
  void check_budget() {
    const auto budget = stage_.config.find("budget");
    if (budget == stage_.config.end() || !budget->is_object() || !budget->contains("of")) return;
    const auto arm = budget->at("of").get<std::string>();
    if (std::find(scope_.arm_names.begin(), scope_.arm_names.end(), arm) != scope_.arm_names.end()) return;
    diagnostics_.error(stage_.text.find("budget")->place, fmt::format("unknown arm `{}` for `budget` in {}", arm, context_.in()),
                       did_you_mean(arm, scope_.arm_names));
  }

  void read_task() {
    const auto task = stage_.config.find("task");
    if (task == stage_.config.end() || !task->is_string()) return;
    Value& text = *stage_.text.find("task");
    stage_.task = with_version("task", task->get<std::string>(), text.place, scope_.options.tasks, diagnostics_);
    *task = stage_.task;
    text.text = stage_.task;
  }

  void read_inputs() {
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

  /// `references`: of the component that the input is a parameter of.
  std::optional<StageRead> read_input(const Value& item, const InputDeclaration& input, std::vector<std::string> references,
                                      const std::vector<std::string>& names) {
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
      return tell(
          fmt::format(": stage.{} ({}) does not train, so it has no state at {}", read->stage, verb->name, read->snapshot));
    if (is_waiting(Value::of(result.snapshot))) return result;
    const auto point = parse_point(result.snapshot, problem);
    if (!point) return tell(": " + problem);
    result.snapshot = *point;
    return result;
  }

  /// `at = ["1%", "10%"]` of a stage that measures: the states at these points are what it reads.
  void read_points() {
    const Value* at = table_.find("at");
    const auto points = stage_.config.find("at");
    if (!stage_.verb->measures || at == nullptr || points == stage_.config.end() || !points->is_array()) return;
    const auto from =
        std::find_if(stage_.inputs.begin(), stage_.inputs.end(), [](const auto& one) { return one.first == "from"; });
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

  std::vector<std::int64_t> seeds_of(const std::string& key, const Value& value) {
    std::vector<std::int64_t> seeds;
    const std::vector<Value> single = {value};
    for (const Value& item : value.is(Value::Type::array) ? value.items : single) {
      if (!item.is(Value::Type::integer) || item.integer < 0) {
        diagnostics_.error(item.place, fmt::format("`{}` in {} must be a number from 0 on, a list of them, or a table of {}", key,
                                                   context_.in(), join(seed_purposes(), ", ")));
        return {};
      }
      seeds.push_back(item.integer);
    }
    if (seeds.empty()) diagnostics_.error(value.place, fmt::format("`{}` in {} is an empty list", key, context_.in()));
    return seeds;
  }

  void read_seed() {
    const Value* seed = table_.find("seed");
    if (seed == nullptr) return;
    copy("seed");
    if (!seed->is_table()) {
      const auto seeds = seeds_of("seed", *seed);
      if (seeds.empty()) return;
      for (const auto& purpose : seed_purposes()) stage_.seed.purposes[purpose] = seeds;
      return;
    }
    TableContext context = context_;
    context.path += ".seed";
    context.all_keys.clear();
    for (const auto& [key, member] : seed->members) {
      if (std::find(seed_purposes().begin(), seed_purposes().end(), key) == seed_purposes().end()) {
        diagnostics_.error(member.key, fmt::format("unknown key `{}` in {}", key, context.in()),
                           did_you_mean(key, seed_purposes()), "purposes: " + join(seed_purposes(), ", "));
        continue;
      }
      const auto seeds = seeds_of("seed." + key, member.value);
      if (!seeds.empty()) stage_.seed.purposes[key] = seeds;
    }
  }

  void read_arms() {
    const Value* arms = table_.find("arms");
    if (arms == nullptr || !stage_.verb->measures) return;
    copy("arms");
    const std::vector<Value> single = {*arms};
    for (const Value& item : arms->is(Value::Type::array) ? arms->items : single) {
      if (!item.is_text()) {
        diagnostics_.error(
            item.place, fmt::format("`arms` in {} must be a list of arms, but this is {}", context_.in(), type_name(item.type)));
      } else if (std::find(scope_.arm_names.begin(), scope_.arm_names.end(), item.text) == scope_.arm_names.end()) {
        diagnostics_.error(item.place, fmt::format("unknown arm `{}` in {}", item.text, context_.in()),
                           did_you_mean(item.text, scope_.arm_names));
      }
    }
  }

  void read_model() {
    const auto own = table_.members.find("model");
    const bool written = own != table_.members.end() && stage_.verb->leaves == "model";
    if (written) copy("model");
    const auto* from = stage_.input("from");
    if (from != nullptr || stage_.verb->leaves != "model") {
      if (written) {
        diagnostics_.error(own->second.key, fmt::format("`model` in {} describes a fresh model, but this stage reads `{}`",
                                                        context_.in(), from->front().stage));
      }
      return;
    }
    const bool reads = std::any_of(stage_.verb->inputs.begin(), stage_.verb->inputs.end(), [&](const InputDeclaration& input) {
      return input.name == "from" && (input.required || table_.find(input.name) != nullptr);
    });
    if (reads) return;  // it should read one: that error was told
    const auto found = scope_.root.members.find("model");
    if (found == scope_.root.members.end() && !written) {
      if (scope_.complete)
        diagnostics_.error(context_.place,
                           fmt::format("{} starts from a fresh model, so the recipe needs [model]", context_.in()));
      return;
    }
    Value model = found != scope_.root.members.end() ? found->second.value : Value::table();
    if (written) merge(model, own->second.value);
    substitute_axes(model, scope_.axes, labels_, diagnostics_);
    stage_.model = resolve_model(model, found != scope_.root.members.end() ? found->second.key : own->second.key, scope_).config;
  }

  const StageScope& scope_;
  Diagnostics& diagnostics_;
  const AxisLabels& labels_;
  Value table_;
  RecipeStage stage_;
  TableContext context_;
  std::vector<UsedInput> used_inputs_;
};

}  // namespace

std::string with_version(const std::string& what, const std::string& use, const Place& place,
                         const std::map<std::string, int>& known, Diagnostics& diagnostics) {
  if (known.empty()) return use;
  const std::string name = use.substr(0, use.find('@'));
  const auto found = known.find(name);
  if (found == known.end()) {
    std::vector<std::string> names;
    for (const auto& [other, version] : known) names.push_back(other);
    diagnostics.error(place, fmt::format("unknown {} `{}`", what, use), did_you_mean(name, names),
                      fmt::format("known: {}", join(names, ", ")));
    return use;
  }
  const std::string newest = name + "@" + std::to_string(found->second);
  if (name != use && use != newest) {
    diagnostics.error(place, fmt::format("{} `{}`: there is no such version; the newest is {}", what, use, newest));
  }
  return newest;
}

CheckedTable resolve_model(const Value& model, const Place& place, const StageScope& scope) {
  if (!model.is_table()) {
    scope.diagnostics.error(model.place, fmt::format("[model] is a table, but this is {}", type_name(model.type)));
    return {};
  }
  TableContext context;
  context.path = "model";
  context.place = place;
  context.default_of = "default of [model]";
  context.all_keys = "all keys: moiety plugins info model";
  context.complete = scope.complete;
  return Checker(scope.catalog, scope.diagnostics).check(model, scope.catalog.model, context);
}

std::optional<RecipeStage> resolve_stage(const std::string& name, const StageScope& scope, const AxisLabels& labels) {
  const Value* stages = scope.root.find("stage");
  const auto found = stages->members.find(name);
  if (found == stages->members.end()) return std::nullopt;
  const std::size_t before = scope.diagnostics.told();
  auto stage = StageReader(name, found->second, scope, labels).read();
  if (stage) stage->flawed = scope.diagnostics.told() != before;
  return stage;
}

}  // namespace moiety::host
