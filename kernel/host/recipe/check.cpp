#include "kernel/host/recipe/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/base/text.h"
#include "kernel/host/recipe/homes.h"

namespace moiety::host {

/// The declared names as the tree that their dots make.
struct Checker::Group {
  std::map<std::string, ParameterDeclaration> parameters;
  std::map<std::string, Group> groups;
  bool optional = false, required = false;
  std::string doc;

  static Group of(const std::vector<ParameterDeclaration>& declared, const std::set<std::string>& optional_tables) {
    Group root;
    for (const auto& parameter : declared) {
      const auto path = split(parameter.name, '.');
      Group* at = &root;
      for (std::size_t i = 0; i + 1 < path.size(); ++i) at = &at->groups[path[i]];
      if (parameter.type == "table") {
        at->groups[path.back()].optional = !parameter.required && parameter.fallback.is_null();
      } else if (parameter.type == "data") {
        Group& data = at->groups[path.back()];
        data.optional = !parameter.required;
        data.required = parameter.required;
        data.doc = parameter.doc;
        data.add_selection();
      } else {
        at->parameters[path.back()] = parameter;
      }
    }
    for (const auto& name : optional_tables) {
      const auto found = root.groups.find(name);
      if (found != root.groups.end()) found->second.optional = true;
    }
    return root;
  }

  /// What selects windows of the corpus.
  void add_selection() {
    const auto add = [this](const char* key, const char* type, const char* words) {
      ParameterDeclaration one;
      one.name = key;
      one.type = type;
      one.doc = words;
      return &parameters.insert({key, std::move(one)}).first->second;
    };
    add("domains", "domains", "which domains; all when absent");
    add("without", "domains", "all domains but these");
    add("tokens", "integer", "at most so many, the first ones")->low = 1;
    auto* fraction = add("fraction", "number", "of the windows of each domain, the first ones");
    fraction->unit = "share";
    fraction->low = 0;
    fraction->low_open = true;
    fraction->high = 1;
  }

  std::vector<std::string> switches() const {
    std::vector<std::string> names;
    for (const auto& [name, parameter] : parameters)
      if (parameter.type == "bool") names.push_back(name);
    return names;
  }

  std::vector<std::string> keys() const {
    std::vector<std::string> names;
    for (const auto& [name, parameter] : parameters) names.push_back(name);
    for (const auto& [name, group] : groups) names.push_back(name);
    return names;
  }
};

std::string range_text(const ParameterDeclaration& declared) {
  std::vector<std::string> parts;
  if (declared.low) parts.push_back((declared.low_open ? "above " : "at least ") + number(*declared.low));
  if (declared.high) parts.push_back((declared.high_open ? "below " : "at most ") + number(*declared.high));
  return join(parts, " and ");
}

CheckedTable Checker::check(const Value& written, const std::vector<ParameterDeclaration>& declared,
                            const TableContext& context) {
  CheckedTable result;
  result.text.place = written.place;
  check_group(&written, Group::of(declared, context.optional_tables), context, result.config, result.text, result);
  return result;
}

void Checker::check_group(const Value* written, const Group& group, const TableContext& context, nlohmann::json& config,
                          Value& text, CheckedTable& used) {
  if (written != nullptr) {
    for (const auto& [key, member] : written->members) {
      if (group.parameters.count(key) != 0 || group.groups.count(key) != 0 || context.also.count(key) != 0) continue;
      auto known = group.keys();
      known.insert(known.end(), context.also.begin(), context.also.end());
      unknown_key(key, member.key, context, known);
    }
  }
  for (const auto& [key, parameter] : group.parameters) {
    const Value* value = written != nullptr ? written->find(key) : nullptr;
    if (value == nullptr && parameter.required) {
      tell_missing(context, key, parameter.doc);
      continue;
    }
    if (value == nullptr && parameter.fallback.is_null()) continue;
    Value fallback;
    if (value == nullptr) {
      fallback = Value::from_json(parameter.fallback, context.default_of);
      fallback.place = {};
    }
    auto leaf = check_value(key, value != nullptr ? *value : fallback, parameter, context, used);
    if (!leaf) continue;
    config[key] = std::move(leaf->json);
    if (value != nullptr) {
      leaf->text.place = value->place;
      leaf->text.reference = value->reference;
    }
    text.set(key, std::move(leaf->text), written != nullptr && value != nullptr ? written->members.at(key).key : Place{});
  }
  for (const auto& [key, inner] : group.groups) {
    const Value* value = written != nullptr ? written->find(key) : nullptr;
    // `train = "head"` is `train = { head = true }`: one of the table's switches by its name.
    Value switched = Value::table();
    if (value != nullptr && value->is_text()) {
      const auto found = inner.parameters.find(value->text);
      if (found != inner.parameters.end() && found->second.type == "bool") {
        switched.place = value->place;
        switched.reference = value->reference;
        Value on = Value::of(true);
        on.place = value->place;
        switched.set(value->text, std::move(on), value->place);
        value = &switched;
      }
    }
    if (value == nullptr && inner.required) tell_missing(context, key, inner.doc);
    if (value == nullptr && (inner.optional || inner.required)) continue;
    TableContext deeper = context;
    deeper.path += "." + toml_key(key);
    deeper.slot += key + ".";
    deeper.also.clear();
    if (value != nullptr && !value->reference.empty()) deeper.references.push_back(value->reference);
    if (value != nullptr) {
      deeper.place = written->members.at(key).key;
      if (!value->is_table()) {
        const auto switches = inner.switches();
        tell(context, value->place,
             switches.empty() || !value->is_text()
                 ? fmt::format("`{}` in {} must be a table, but this is {}", key, context.in(), type_name(value->type))
                 : fmt::format("`{}` in {} must be a table or one of {}", key, context.in(), join(switches, ", ")),
             value->is_text() ? did_you_mean(value->text, switches) : "", context.all_keys);
        continue;
      }
    }
    auto inner_config = nlohmann::json::object();
    Value inner_text = Value::table();
    check_group(value, inner, deeper, inner_config, inner_text, used);
    if (value == nullptr && inner_config.empty()) continue;
    config[key] = std::move(inner_config);
    if (value != nullptr) {
      inner_text.place = value->place;
      inner_text.reference = value->reference;
    }
    text.set(key, std::move(inner_text), value != nullptr ? written->members.at(key).key : Place{});
  }
}

void Checker::tell(const TableContext& context, const Place& place, const std::string& message, const std::string& suggestion,
                   const std::string& reference, const std::vector<std::string>& remarks) {
  // A value that several stages took from one place ([defaults.finetune]) is wrong once.
  std::string topic = message;
  const auto found = topic.find(context.in());
  if (found != std::string::npos && place.known()) topic.erase(found, context.in().size());
  diagnostics_.add({place, message, suggestion, reference, {}, topic, remarks});
}

void Checker::tell_missing(const TableContext& context, const std::string& key, const std::string& doc) {
  if (!context.complete) return;
  tell(context, context.place, fmt::format("{} needs `{}`", context.in(), key),
       doc.empty() ? "" : fmt::format("`{}`: {}", key, doc), context.all_keys);
}

/// Names of sets, or a table: label → windows of the corpus.
std::optional<Checker::Leaf> Checker::check_sets(const std::string& key, const Value& value, const ParameterDeclaration& declared,
                                                 const TableContext& context) {
  if (!value.is_table()) {
    ParameterDeclaration names = declared;
    names.type = "texts";
    return check_list(key, value, names, context);
  }
  Group selection;
  selection.add_selection();
  Leaf leaf{nlohmann::json::object(), Value::table()};
  for (const auto& [label, member] : value.members) {
    if (!member.value.is_table()) {
      tell(context, member.value.place,
           fmt::format("`{}.{}` in {} must be a table that selects windows, as in {{ domains = \"law\" }}, but this is {}", key,
                       toml_key(label), context.in(), type_name(member.value.type)));
      continue;
    }
    TableContext deeper = context;
    deeper.path += "." + toml_key(key) + "." + toml_key(label);
    deeper.also.clear();
    deeper.place = member.key;
    auto config = nlohmann::json::object();
    Value text = Value::table();
    CheckedTable none;
    check_group(&member.value, selection, deeper, config, text, none);
    text.place = member.value.place;
    text.reference = member.value.reference;
    leaf.json[label] = std::move(config);
    leaf.text.set(label, std::move(text), member.key);
  }
  if (value.members.empty()) {
    tell(context, value.place, fmt::format("`{}` in {} is an empty table", key, context.in()));
    return std::nullopt;
  }
  return leaf;
}

const ComponentDeclaration* Checker::find_component(const std::string& key, const Value& use,
                                                    const ParameterDeclaration& declared, const TableContext& context) {
  std::string kind = declared.kind;
  std::replace(kind.begin(), kind.end(), '_', ' ');
  if (!use.is_text()) {
    TableContext inside = context;
    inside.path += "." + toml_key(key);
    inside.label.clear();
    wrong_type("use", use, "text: the name of a " + kind, inside);
    return nullptr;
  }
  if (is_waiting(use)) {
    tell(context, use.place,
         fmt::format("`{}` in {}: which {} a stage uses cannot be the result of another stage", key, context.in(), kind));
    return nullptr;
  }
  if (const auto* component = catalog_.component(declared.kind, use.text)) return component;
  const std::string name = use.text.substr(0, use.text.find('@'));
  const auto names = catalog_.component_names(declared.kind);
  if (const auto* newest = catalog_.component(declared.kind, name)) {
    tell(context, use.place,
         fmt::format("`{}` for `{}` in {}: there is no such version; the newest is {}", use.text, key, context.in(),
                     newest->use()));
    return nullptr;
  }
  std::vector<std::string> remarks;
  remarks.push_back("searched for plugins: " + (catalog_.folders.empty() ? "no folder" : join(catalog_.folders, ", ")));
  for (const auto& failure : catalog_.failures)
    remarks.push_back(fmt::format("could not be used: {}: {}", failure.file, failure.reason));
  tell(context, use.place, fmt::format("unknown {} `{}` for `{}` in {}", kind, use.text, key, context.in()),
       did_you_mean(name, names), names.empty() ? fmt::format("no {} was found", kind) : "all components: moiety plugins",
       remarks);
  return nullptr;
}

std::optional<Checker::Leaf> Checker::check_component(const std::string& key, const Value& value,
                                                      const ParameterDeclaration& declared, const TableContext& context,
                                                      CheckedTable& used) {
  const Value* use = value.is_table() ? value.find("use") : &value;
  if (!value.is_table() && !value.is_text())
    return wrong_type(key, value, "a component: its name, or a table with `use`", context);
  if (use == nullptr) {
    tell(context, value.place, fmt::format("`{}` in {} needs `use`: the name of the component", key, context.in()), "",
         "all components: moiety plugins");
    return std::nullopt;
  }
  const ComponentDeclaration* component = find_component(key, *use, declared, context);
  if (component == nullptr) return std::nullopt;
  // A component whose default part is itself would never end.
  if (depth_ >= 8) {
    tell(context, value.place, fmt::format("components are nested deeper than 8 levels at `{}` in {}", key, context.in()));
    return std::nullopt;
  }
  const std::string full = declared.kind + "/" + component->use();
  TableContext deeper;
  deeper.path = context.path + "." + toml_key(key);
  deeper.label = full;
  deeper.all_keys = "all keys: moiety plugins info " + declared.kind + "/" + component->name;
  deeper.default_of = "default of " + full;
  deeper.place = value.place.known() ? value.place : context.place;
  deeper.slot = context.slot + key + ".";
  deeper.also = {"use"};
  deeper.complete = context.complete;
  deeper.references = context.references;
  if (!value.reference.empty()) deeper.references.push_back(value.reference);
  static const Value nothing = Value::table();
  ++depth_;
  CheckedTable checked = check(value.is_table() ? value : nothing, component->parameters, deeper);
  --depth_;
  used.components.push_back({context.slot + key, component});
  used.components.insert(used.components.end(), checked.components.begin(), checked.components.end());
  used.inputs.insert(used.inputs.end(), checked.inputs.begin(), checked.inputs.end());
  checked.config["use"] = component->use();
  Value name = Value::of(component->use());
  name.place = use->place;
  name.origin = use->origin;
  checked.text.set("use", std::move(name), value.is_table() ? value.members.at("use").key : value.place);
  return Leaf{std::move(checked.config), std::move(checked.text)};
}

void Checker::unknown_key(const std::string& key, const Place& place, const TableContext& context,
                          const std::vector<std::string>& known) {
  const std::string home = home_of(key, context);
  if (!home.empty()) {
    tell(context, place, fmt::format("`{}` is not a key of {}; it belongs in {}", key, context.in(), home));
    return;
  }
  tell(context, place, fmt::format("unknown key `{}` in {}", key, context.in()), did_you_mean(key, known), context.all_keys);
}

std::string Checker::home_of(const std::string& key, const TableContext& context) const {
  return find_home(catalog_, key, context.path, context.label);
}

}  // namespace moiety::host
