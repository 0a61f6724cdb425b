#include "kernel/host/recipe/stage_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/base/text.h"
#include "kernel/host/recipe/quantities.h"
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

}  // namespace

StageReader::StageReader(const std::string& name, const Member& member, const StageScope& scope, const AxisLabels& labels)
    : scope_(scope), diagnostics_(scope.diagnostics), labels_(labels), table_(member.value) {
  substitute_axes(table_, scope.axes, labels, diagnostics_);
  if (scope.results != nullptr) substitute_results();
  stage_.name = name;
  stage_.place = member.key;
  context_.path = "stage." + toml_key(name);
  context_.place = member.key;
  context_.complete = scope.complete;
}

std::optional<RecipeStage> StageReader::read() {
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

void StageReader::substitute_results() {
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

void StageReader::collect_results(const Value& value) {
  for (const auto& [stage, result] : results_in(value, *scope_.root.find("stage"))) {
    stage_.results.push_back({stage, {}, result, value.place});
  }
  for (const auto& item : value.items) collect_results(item);
  for (const auto& [key, member] : value.members) collect_results(member.value);
}

void StageReader::copy(const std::string& key) {
  const auto found = table_.members.find(key);
  if (found != table_.members.end()) stage_.text.set(key, found->second.value, found->second.key);
}

bool StageReader::read_verb() {
  const Value* verb = table_.find("do");
  const auto names = scope_.catalog.verb_names();
  if (verb == nullptr) {
    diagnostics_.error(context_.place, fmt::format("{} needs `do`: what the stage does", context_.path), "",
                       "verbs: " + join(names, ", "));
    return false;
  }
  if (!verb->is_text()) {
    diagnostics_.error(verb->place, fmt::format("`do` in {} must be text, but this is {}", context_.path, type_name(verb->type)));
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

void StageReader::read_parameters() {
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

void StageReader::measure_all() {
  const auto& metrics = stage_.verb->metrics;
  const auto is_given = [&](const OutputDeclaration& one) { return one.when.empty() || table_.find(one.when) != nullptr; };
  const auto is_data = [](const ParameterDeclaration& one) { return one.name == "data" && one.type == "data"; };
  if (!stage_.verb->measures || metrics.empty() || std::any_of(metrics.begin(), metrics.end(), is_given)) return;
  if (std::none_of(stage_.verb->parameters.begin(), stage_.verb->parameters.end(), is_data)) return;
  table_.set("data", Value::table());
}

bool StageReader::lacks_component() const {
  return std::any_of(stage_.verb->parameters.begin(), stage_.verb->parameters.end(), [&](const ParameterDeclaration& one) {
    const auto path = split(one.name, '.');
    return one.type == "component" && path.size() == 1 && !stage_.config.contains(one.name) && table_.find(one.name) != nullptr;
  });
}

void StageReader::check_budget() {
  const auto budget = stage_.config.find("budget");
  if (budget == stage_.config.end() || !budget->is_object() || !budget->contains("of")) return;
  const auto arm = budget->at("of").get<std::string>();
  if (std::find(scope_.arm_names.begin(), scope_.arm_names.end(), arm) != scope_.arm_names.end()) return;
  diagnostics_.error(stage_.text.find("budget")->place, fmt::format("unknown arm `{}` for `budget` in {}", arm, context_.in()),
                     did_you_mean(arm, scope_.arm_names));
}

void StageReader::read_task() {
  const auto task = stage_.config.find("task");
  if (task == stage_.config.end() || !task->is_string()) return;
  Value& text = *stage_.text.find("task");
  stage_.task = with_version("task", task->get<std::string>(), text.place, scope_.options.tasks, diagnostics_);
  *task = stage_.task;
  text.text = stage_.task;
}

std::vector<std::int64_t> StageReader::seeds_of(const std::string& key, const Value& value) {
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

void StageReader::read_seed() {
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
      diagnostics_.error(member.key, fmt::format("unknown key `{}` in {}", key, context.in()), did_you_mean(key, seed_purposes()),
                         "purposes: " + join(seed_purposes(), ", "));
      continue;
    }
    const auto seeds = seeds_of("seed." + key, member.value);
    if (!seeds.empty()) stage_.seed.purposes[key] = seeds;
  }
}

void StageReader::read_arms() {
  const Value* arms = table_.find("arms");
  if (arms == nullptr || !stage_.verb->measures) return;
  copy("arms");
  const std::vector<Value> single = {*arms};
  for (const Value& item : arms->is(Value::Type::array) ? arms->items : single) {
    if (!item.is_text()) {
      diagnostics_.error(item.place,
                         fmt::format("`arms` in {} must be a list of arms, but this is {}", context_.in(), type_name(item.type)));
    } else if (std::find(scope_.arm_names.begin(), scope_.arm_names.end(), item.text) == scope_.arm_names.end()) {
      diagnostics_.error(item.place, fmt::format("unknown arm `{}` in {}", item.text, context_.in()),
                         did_you_mean(item.text, scope_.arm_names));
    }
  }
}

void StageReader::read_model() {
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
      diagnostics_.error(context_.place, fmt::format("{} starts from a fresh model, so the recipe needs [model]", context_.in()));
    return;
  }
  Value model = found != scope_.root.members.end() ? found->second.value : Value::table();
  if (written) merge(model, own->second.value);
  substitute_axes(model, scope_.axes, labels_, diagnostics_);
  auto resolved = resolve_model(model, found != scope_.root.members.end() ? found->second.key : own->second.key, scope_);
  stage_.model = std::move(resolved.table.config);
  stage_.size = std::move(resolved.size);
}

}  // namespace moiety::host
