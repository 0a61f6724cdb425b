// One value against its declared parameter: numbers, texts, lists, layers, budgets, inputs, shares.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernel/base/text.h"
#include "kernel/host/recipe/check.h"
#include "kernel/host/recipe/groups.h"
#include "kernel/host/recipe/quantities.h"

namespace moiety::host {

bool is_waiting(const Value& value) { return value.is_text() && value.text.find("${") != std::string::npos; }

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
    const bool share = declared.unit == "share" || (declared.low == 0.0 && declared.high == 1.0);
    if (value.is(Value::Type::integer)) {
      amount = static_cast<double>(value.integer);
    } else if (value.is(Value::Type::number)) {
      amount = value.number;
    } else if (const auto percent = share && value.is_text() ? parse_percent(value.text) : std::nullopt) {
      amount = *percent;
    } else {
      return wrong_type(key, value, share ? "a number, or a share as \"2%\"" : "a number", context);
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
    if (is_waiting(item)) {
      checked = Leaf{item.text, Value::of(item.text)};
    } else if (declared.type == "texts" || declared.type == "domains") {
      if (item.is_text()) {
        checked = Leaf{item.text, Value::of(item.text)};
        if (declared.type == "domains" && domains_ != nullptr) check_domain(item, context.in(), *domains_, diagnostics_);
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

std::optional<Checker::Leaf> Checker::check_layers(const std::string& key, const Value& value,
                                                   const ParameterDeclaration& declared, const TableContext& context) {
  if (value.is_text()) {
    if (is_layer_rule(value.text)) return Leaf{value.text, Value::of(value.text)};
    tell(context, value.place,
         fmt::format("`{}` in {} must be \"all\", \"last 2\", \"every 2\" or a list of layers", key, context.in()));
    return std::nullopt;
  }
  ParameterDeclaration layers = declared;
  layers.type = "integers";
  if (!layers.low) layers.low = 0;
  if (!value.is(Value::Type::array) && !value.is(Value::Type::integer)) {
    return wrong_type(key, value, "\"all\", \"last 2\", \"every 2\" or a list of layers", context);
  }
  return check_list(key, value, layers, context);
}

std::optional<Checker::Leaf> Checker::check_input(const std::string& key, const Value& value,
                                                  const ParameterDeclaration& declared, const TableContext& context,
                                                  CheckedTable& used) {
  if (!value.is_text()) return wrong_type(key, value, "the name of a stage", context);
  const std::string slot = context.slot + key;
  used.inputs.push_back({slot, declared.accepts, value, context.references});
  return Leaf{slot, Value::of(value.text)};
}

/// A number for each name: { en = 0.9, de = 0.1 }.
std::optional<Checker::Leaf> Checker::check_shares(const std::string& key, const Value& value,
                                                   const ParameterDeclaration& declared, const TableContext& context) {
  if (!value.is_table()) return wrong_type(key, value, "a table of names and their shares, as { en = 0.9, de = 0.1 }", context);
  if (value.members.empty()) {
    tell(context, value.place, fmt::format("`{}` in {} is an empty table", key, context.in()));
    return std::nullopt;
  }
  ParameterDeclaration share = declared;
  share.type = "number";
  share.unit = "share";
  if (!share.low) share.low = 0;
  Leaf leaf{nlohmann::json::object(), Value::table()};
  bool good = true;
  for (const auto& [name, member] : value.members) {
    auto one = is_waiting(member.value) ? std::optional<Leaf>({member.value.text, member.value})
                                        : check_number(key + "." + toml_key(name), member.value, share, context);
    if (!one) {
      good = false;
      continue;
    }
    one->text.place = member.value.place;
    one->text.reference = member.value.reference;
    leaf.json[name] = std::move(one->json);
    leaf.text.set(name, std::move(one->text), member.key);
  }
  if (!good) return std::nullopt;
  return leaf;
}

std::optional<Checker::Leaf> Checker::check_value(const std::string& key, const Value& value,
                                                  const ParameterDeclaration& declared, const TableContext& context,
                                                  CheckedTable& used) {
  const std::string& type = declared.type;
  std::optional<Leaf> leaf;
  if (type == "component") return check_component(key, value, declared, context, used);
  if (is_waiting(value) && type != "input") return Leaf{value.text, value};
  if (type == "integer" || type == "number") {
    leaf = check_number(key, value, declared, context);
  } else if (type == "integers" || type == "texts" || type == "domains") {
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
    leaf = check_layers(key, value, declared, context);
  } else if (type == "input") {
    leaf = check_input(key, value, declared, context, used);
  } else if (type == "shares") {
    leaf = check_shares(key, value, declared, context);
  } else if (type == "sets") {
    leaf = check_sets(key, value, declared, context);
  } else if (type == "budget") {
    if (!value.is_text()) return wrong_type(key, value, "text as \"1.2M tokens\"", context);
    std::string problem;
    const auto budget = parse_budget(value.text, problem);
    if (!budget) {
      tell(context, value.place, fmt::format("`{}` in {}: {}", key, context.in(), problem));
      return std::nullopt;
    }
    const bool open = !budget->of.empty() || budget->unit == "flops";
    if (open && (!context.slot.empty() || key != "budget")) {
      tell(context, value.place,
           fmt::format("`{}` in {}: only the budget of a stage can be {}", key, context.in(),
                       budget->of.empty() ? "an amount of flops" : "the total of another arm"));
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

}  // namespace moiety::host
