#include "kernel/host/recipe/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernel/base/text.h"
#include "kernel/host/recipe/homes.h"
#include "kernel/host/recipe/quantities.h"

namespace moiety::host {

/// The declared names as the tree that their dots make.
struct Checker::Group {
  std::map<std::string, const ParameterDeclaration*> parameters;
  std::map<std::string, Group> groups;
  bool optional = false;

  static Group of(const std::vector<ParameterDeclaration>& declared, const std::set<std::string>& optional_tables) {
    Group root;
    for (const auto& parameter : declared) {
      const auto path = split(parameter.name, '.');
      Group* at = &root;
      for (std::size_t i = 0; i + 1 < path.size(); ++i) at = &at->groups[path[i]];
      if (parameter.type == "table") {
        at->groups[path.back()].optional = !parameter.required && parameter.fallback.is_null();
      } else {
        at->parameters[path.back()] = &parameter;
      }
    }
    for (const auto& name : optional_tables) {
      const auto found = root.groups.find(name);
      if (found != root.groups.end()) found->second.optional = true;
    }
    return root;
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
  check_group(&written, Group::of(declared, context.optional_tables), context, result.config, result.text, result.components);
  return result;
}

void Checker::check_group(const Value* written, const Group& group, const TableContext& context, nlohmann::json& config,
                          Value& text, std::vector<UsedComponent>& components) {
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
    if (value == nullptr && parameter->required) {
      if (context.complete)
        tell(context, context.place, fmt::format("{} needs `{}`", context.in(), key),
             parameter->doc.empty() ? "" : fmt::format("`{}`: {}", key, parameter->doc), context.all_keys);
      continue;
    }
    if (value == nullptr && parameter->fallback.is_null()) continue;
    Value fallback;
    if (value == nullptr) {
      fallback = Value::from_json(parameter->fallback, context.default_of);
      fallback.place = {};
    }
    auto leaf = check_value(key, value != nullptr ? *value : fallback, *parameter, context, components);
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
    if (value == nullptr && inner.optional) continue;
    TableContext deeper = context;
    deeper.path += "." + toml_key(key);
    deeper.slot += key + ".";
    deeper.also.clear();
    if (value != nullptr) {
      deeper.place = written->members.at(key).key;
      if (!value->is_table()) {
        tell(context, value->place,
             fmt::format("`{}` in {} must be a table, but this is {}", key, context.in(), type_name(value->type)), "",
             context.all_keys);
        continue;
      }
    }
    auto inner_config = nlohmann::json::object();
    Value inner_text = Value::table();
    check_group(value, inner, deeper, inner_config, inner_text, components);
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

std::optional<Checker::Leaf> Checker::wrong_type(const std::string& key, const Value& value, const std::string& wanted,
                                                 const TableContext& context) {
  tell(context, value.place,
       fmt::format("`{}` in {} must be {}, but this is {}", key, context.in(), wanted, type_name(value.type)));
  return std::nullopt;
}

std::optional<Checker::Leaf> Checker::check_number(const std::string& key, const Value& value,
                                                   const ParameterDeclaration& declared, const TableContext& context) {
  const bool whole = declared.type == "integer" || declared.type == "integers";
  Leaf leaf;
  double amount = 0;
  if (whole) {
    std::optional<std::int64_t> integer;
    if (value.is(Value::Type::integer)) {
      integer = value.integer;
    } else if (value.is(Value::Type::number) && value.number == std::floor(value.number) &&
               std::abs(value.number) <= 9007199254740992.0) {
      integer = static_cast<std::int64_t>(value.number);
    } else if (value.is_text()) {
      integer = parse_size(value.text);
    }
    if (!integer) return wrong_type(key, value, "an integer or a size as \"1.2M\"", context);
    amount = static_cast<double>(*integer);
    leaf = {*integer, Value::of(*integer)};
  } else {
    if (value.is(Value::Type::integer)) {
      amount = static_cast<double>(value.integer);
    } else if (value.is(Value::Type::number)) {
      amount = value.number;
    } else {
      return wrong_type(key, value, "a number", context);
    }
    // -0.0 and 0.0 are one value and must be one text.
    if (amount == 0) amount = 0;
    leaf = {amount, Value::of(amount)};
  }
  const bool below = declared.low && (declared.low_open ? amount <= *declared.low : amount < *declared.low);
  const bool above = declared.high && (declared.high_open ? amount >= *declared.high : amount > *declared.high);
  if (below || above) {
    tell(context, value.place,
         fmt::format("`{}` in {} must be {}, but this is {}", key, context.in(), range_text(declared), number(amount)));
    return std::nullopt;
  }
  return leaf;
}

std::optional<Checker::Leaf> Checker::check_list(const std::string& key, const Value& value, const ParameterDeclaration& declared,
                                                 const TableContext& context) {
  const std::vector<Value> single = {value};
  const bool list = value.is(Value::Type::array);
  Leaf leaf{nlohmann::json::array(), Value::array()};
  bool good = true;
  for (const Value& item : list ? value.items : single) {
    std::optional<Leaf> checked;
    if (declared.type == "texts") {
      if (item.is_text()) {
        checked = Leaf{item.text, Value::of(item.text)};
        if (!declared.choices.empty() &&
            std::find(declared.choices.begin(), declared.choices.end(), item.text) == declared.choices.end()) {
          tell(context, item.place, fmt::format("unknown `{}` for `{}` in {}", item.text, key, context.in()),
               did_you_mean(item.text, declared.choices), "choices: " + join(declared.choices, ", "));
          checked.reset();
        }
      } else {
        wrong_type(key, item, list ? "a list of texts" : "text or a list of texts", context);
      }
    } else {
      checked = check_number(key, item, declared, context);
    }
    if (!checked) {
      good = false;
      continue;
    }
    leaf.json.push_back(std::move(checked->json));
    checked->text.place = item.place;
    checked->text.reference = item.reference;
    leaf.text.items.push_back(std::move(checked->text));
  }
  if (!good) return std::nullopt;
  return leaf;
}

std::optional<Checker::Leaf> Checker::check_value(const std::string& key, const Value& value,
                                                  const ParameterDeclaration& declared, const TableContext& context,
                                                  std::vector<UsedComponent>& components) {
  const std::string& type = declared.type;
  std::optional<Leaf> leaf;
  if (type == "component") return check_component(key, value, declared, context, components);
  if (type == "integer" || type == "number") {
    leaf = check_number(key, value, declared, context);
  } else if (type == "integers" || type == "texts") {
    leaf = check_list(key, value, declared, context);
  } else if (type == "bool") {
    if (!value.is(Value::Type::boolean)) return wrong_type(key, value, "true or false", context);
    leaf = Leaf{value.boolean, Value::of(value.boolean)};
  } else if (type == "text") {
    if (!value.is_text()) return wrong_type(key, value, "text", context);
    leaf = Leaf{value.text, Value::of(value.text)};
  } else if (type == "choice") {
    if (!value.is_text()) return wrong_type(key, value, "one of " + join(declared.choices, ", "), context);
    if (std::find(declared.choices.begin(), declared.choices.end(), value.text) == declared.choices.end()) {
      tell(context, value.place, fmt::format("unknown choice `{}` for `{}` in {}", value.text, key, context.in()),
           did_you_mean(value.text, declared.choices), "choices: " + join(declared.choices, ", "));
      return std::nullopt;
    }
    leaf = Leaf{value.text, Value::of(value.text)};
  } else if (type == "layers") {
    if (value.is_text()) {
      if (!is_layer_rule(value.text)) {
        tell(context, value.place,
             fmt::format("`{}` in {} must be \"all\", \"last 2\", \"every 2\" or a list of layers", key, context.in()));
        return std::nullopt;
      }
      leaf = Leaf{value.text, Value::of(value.text)};
    } else {
      ParameterDeclaration layers = declared;
      layers.type = "integers";
      if (!layers.low) layers.low = 0;
      if (!value.is(Value::Type::array) && !value.is(Value::Type::integer)) {
        return wrong_type(key, value, "\"all\", \"last 2\", \"every 2\" or a list of layers", context);
      }
      leaf = check_list(key, value, layers, context);
    }
  } else if (type == "budget") {
    if (!value.is_text()) return wrong_type(key, value, "text as \"1.2M tokens\"", context);
    std::string problem;
    const auto budget = parse_budget(value.text, problem);
    if (!budget) {
      tell(context, value.place, fmt::format("`{}` in {}: {}", key, context.in(), problem));
      return std::nullopt;
    }
    leaf = Leaf{budget->to_json(), Value::of(budget->text())};
  } else {
    tell(context, value.place, fmt::format("`{}` in {} has a type this program does not know: {}", key, context.in(), type),
         "the worker is newer than this program: rebuild both");
    return std::nullopt;
  }
  if (leaf) leaf->text.origin = value.origin;
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
                                                      std::vector<UsedComponent>& components) {
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
  static const Value nothing = Value::table();
  ++depth_;
  CheckedTable checked = check(value.is_table() ? value : nothing, component->parameters, deeper);
  --depth_;
  components.push_back({context.slot + key, component});
  components.insert(components.end(), checked.components.begin(), checked.components.end());
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
