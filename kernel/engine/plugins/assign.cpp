#include "kernel/engine/plugins/assign.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "kernel/base/text.h"
#include "kernel/engine/plugins/describe.h"

namespace moiety::engine {
namespace {

using nlohmann::json;

std::string joined(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

/// The value at a dotted name, or null where a table on the way is missing.
const json* find(const json& config, const std::string& name) {
  const json* here = &config;
  for (const std::string& part : split(name, '.')) {
    if (!here->is_object()) return nullptr;
    const auto found = here->find(part);
    if (found == here->end()) return nullptr;
    here = &*found;
  }
  return here;
}

std::optional<double> number_of(const json& value) {
  if (value.is_number()) return std::isfinite(value.get<double>()) ? std::optional<double>(value.get<double>()) : std::nullopt;
  if (value.is_string()) return size_of(value.get_ref<const std::string&>());
  return std::nullopt;
}

std::optional<std::int64_t> integer_of(const json& value) {
  if (value.is_number_unsigned()) {
    const auto n = value.get<std::uint64_t>();
    return n <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ? std::optional<std::int64_t>(n)
                                                                                     : std::nullopt;
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  const auto n = number_of(value);
  // Beyond 2^53 a double no longer tells integers apart.
  if (!n || std::abs(*n) > 9007199254740992.0) return std::nullopt;
  const double rounded = std::nearbyint(*n);
  if (std::abs(*n - rounded) > 1e-6 * std::max(1.0, std::abs(*n)) * 1e-3) return std::nullopt;
  return static_cast<std::int64_t>(rounded);
}

std::optional<Budget> budget_of(const json& value) {
  Budget budget;
  if (value.is_object()) {
    const json *amount = find(value, "amount"), *unit = find(value, "unit");
    if (amount == nullptr || unit == nullptr || !unit->is_string() || !number_of(*amount)) return std::nullopt;
    budget = {*number_of(*amount), unit->get<std::string>()};
  } else if (value.is_string()) {
    const auto parts = split(value.get<std::string>(), ' ');
    if (value == "rest")
      budget = {1, "rest"};
    else if (parts.size() != 2 || !size_of(parts[0]))
      return std::nullopt;
    else
      budget = {*size_of(parts[0]), parts[1]};
  } else {
    return std::nullopt;
  }
  for (const char* unit : {"tokens", "steps", "epochs", "examples", "rest"}) {
    if (budget.unit == unit && budget.amount > 0) return budget;
  }
  return std::nullopt;
}

std::optional<Layers> layers_of(const json& value) {
  Layers layers;
  if (value.is_object()) {
    const json *rule = find(value, "rule"), *list = find(value, "list");
    if (rule != nullptr && rule->is_string() && !rule->get_ref<const std::string&>().empty()) return layers_of(*rule);
    return list == nullptr ? std::nullopt : layers_of(*list);
  }
  if (value.is_string()) {
    layers.rule = value.get<std::string>();
    if (layers.rule == "all") return layers;
    const auto parts = split(layers.rule, ' ');
    if (parts.size() != 2 || (parts[0] != "last" && parts[0] != "every")) return std::nullopt;
    const auto count = integer_of(json(parts[1]));
    return count && *count > 0 ? std::optional<Layers>(layers) : std::nullopt;
  }
  const json list = value.is_array() ? value : json::array({value});
  for (const json& item : list) {
    const auto layer = integer_of(item);
    if (!layer || *layer < 0 || item.is_string()) return std::nullopt;
    layers.list.push_back(*layer);
  }
  return layers;
}

std::string short_text(const json& value) {
  std::string text = printable(value.dump(-1, ' ', false, json::error_handler_t::replace));
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

/// One parameter's conversion: a value, or a problem told.
class Conversion {
 public:
  /// `below`: keys of the value's table that are parameters of their own ("split" of "data").
  Conversion(const Parameter& parameter, std::string path, std::vector<std::string> below, const MakePart& make_part,
             ConfigProblems& problems)
      : p_(parameter), path_(std::move(path)), below_(std::move(below)), make_part_(make_part), problems_(problems) {}

  std::optional<Value> operator()(const json& value) {
    switch (p_.type) {
      case ParameterType::boolean:
        if (value.is_boolean()) return Value(value.get<bool>());
        return wrong("true or false", value);
      case ParameterType::integer:
        if (const auto n = integer_of(value)) return in_range(static_cast<double>(*n)) ? std::optional<Value>(*n) : std::nullopt;
        return wrong("a whole number", value);
      case ParameterType::number:
        if (const auto n = number_of(value)) return in_range(*n) ? std::optional<Value>(*n) : std::nullopt;
        return wrong("a number", value);
      case ParameterType::text:
        if (value.is_string()) return Value(value.get<std::string>());
        return wrong("a text", value);
      case ParameterType::choice:
        return choice(value);
      case ParameterType::integers:
        return integers(value);
      case ParameterType::texts:
        return texts(value);
      case ParameterType::budget:
        if (auto budget = budget_of(value)) return Value(*std::move(budget));
        return wrong("an amount with a unit, such as \"1.2M tokens\" (tokens, steps, epochs, examples)", value);
      case ParameterType::layers:
        if (auto layers = layers_of(value)) return Value(*std::move(layers));
        return wrong("\"all\", \"last 2\", \"every 2\", or numbers of layers", value);
      case ParameterType::input:
        if (value.is_string() && !value.get_ref<const std::string&>().empty()) return Value(StageInput{path_});
        return wrong("the name of a stage", value);
      case ParameterType::data:
        if (auto chosen = selection(value, path_)) return Value(*std::move(chosen));
        return std::nullopt;
      case ParameterType::sets:
        return sets(value);
      case ParameterType::shares:
        return shares(value);
      case ParameterType::component:
        return part(value);
    }
    return std::nullopt;
  }

 private:
  std::nullopt_t tell(std::string message) {
    problems_.push_back({path_, std::move(message)});
    return std::nullopt;
  }
  std::nullopt_t wrong(const char* expected, const json& value) {
    return tell(fmt::format("`{}` must be {}, but is {}", p_.name, expected, short_text(value)));
  }
  bool in_range(double n) {
    const bool low = p_.low_open ? n > p_.low : n >= p_.low, high = p_.high_open ? n < p_.high : n <= p_.high;
    if (!low && std::isfinite(p_.low))
      tell(fmt::format("`{}` must be {} {}, but is {}", p_.name, p_.low_open ? "above" : "at least", number(p_.low), number(n)));
    if (!high && std::isfinite(p_.high))
      tell(fmt::format("`{}` must be {} {}, but is {}", p_.name, p_.high_open ? "below" : "at most", number(p_.high), number(n)));
    return low && high;
  }
  std::optional<Value> choice(const json& value) {
    const std::vector<std::string> words = choice_words(p_);
    if (!value.is_string()) return wrong(("one of " + join(words, ", ")).c_str(), value);
    const auto found = std::find(words.begin(), words.end(), value.get<std::string>());
    if (found != words.end()) return Value(static_cast<std::int64_t>(found - words.begin()));
    const std::string near = did_you_mean(value.get<std::string>(), words);
    return tell(fmt::format("`{}` must be one of {}, but is {}{}{}", p_.name, join(words, ", "), short_text(value),
                            near.empty() ? "" : "; ", near));
  }
  std::optional<Value> integers(const json& value) {
    std::vector<std::int64_t> list;
    const json items = value.is_array() ? value : json::array({value});
    for (const json& item : items) {
      const auto n = integer_of(item);
      if (!n) return wrong("a list of whole numbers", value);
      if (!in_range(static_cast<double>(*n))) return std::nullopt;
      list.push_back(*n);
    }
    return Value(std::move(list));
  }
  std::optional<Value> texts(const json& value) {
    std::vector<std::string> list;
    const json items = value.is_array() ? value : json::array({value});
    for (const json& item : items) {
      if (!item.is_string()) return wrong("a list of texts", value);
      list.push_back(item.get<std::string>());
    }
    return Value(std::move(list));
  }
  std::optional<DataSelection> selection(const json& value, const std::string& path) {
    static constexpr Parameter keys[] = {
        optional<&DataSelection::domains>("domains", "which domains; all when left out"),
        optional<&DataSelection::without>("without", "domains that are left out"),
        param<&DataSelection::tokens>("tokens", 0, "at most so many tokens; fewer are a prefix of more; 0: all").at_least(0),
        param<&DataSelection::fraction>("fraction", 1.0, "of each domain's windows, from the first on").above(0).at_most(1)};
    const std::size_t before = problems_.size();
    DataSelection chosen = read_options<DataSelection>(keys, value, path, nullptr, problems_);
    unknown_keys(keys, std::size(keys), value, path, below_, problems_);
    chosen.given = true;
    if (problems_.size() != before) return std::nullopt;
    return chosen;
  }
  std::optional<Value> sets(const json& value) {
    Sets wanted;
    if (!value.is_object()) {
      const auto names = texts(value);
      if (!names) return std::nullopt;
      wanted.names = std::get<std::vector<std::string>>(*names);
      return Value(std::move(wanted));
    }
    for (const auto& [label, item] : value.items()) {
      auto chosen = selection(item, path_ + "." + label);
      if (!chosen) return std::nullopt;
      wanted.text.emplace_back(label, *std::move(chosen));
    }
    return Value(std::move(wanted));
  }
  std::optional<Value> shares(const json& value) {
    if (!value.is_object()) return wrong("a table of numbers, such as { en = 0.9, de = 0.1 }", value);
    Shares list;
    for (const auto& [name, item] : value.items()) {
      const auto share = number_of(item);
      if (!share) return wrong("a table of numbers, such as { en = 0.9, de = 0.1 }", value);
      list.emplace_back(name, *share);
    }
    return Value(std::move(list));
  }
  std::optional<Value> part(const json& value) {
    if (!make_part_) return tell(fmt::format("`{}` is a component, which cannot be made here", p_.name));
    auto made = make_part_(p_, value, path_, problems_);
    if (!made) return std::nullopt;
    return Value(std::move(made));
  }

  const Parameter& p_;
  std::string path_;
  std::vector<std::string> below_;
  const MakePart& make_part_;
  ConfigProblems& problems_;
};

/// The parameters whose names lie below `name`, without it.
std::vector<std::string> below(const Parameter* parameters, std::size_t count, const std::string& name) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string other = parameters[i].name;
    if (other.size() > name.size() && other.compare(0, name.size() + 1, name + ".") == 0)
      keys.push_back(other.substr(name.size() + 1));
  }
  return keys;
}

}  // namespace

std::optional<double> size_of(std::string_view text) {
  double factor = 1;
  if (!text.empty()) {
    switch (text.back()) {
      case 'k':
        factor = 1e3;
        break;
      case 'M':
        factor = 1e6;
        break;
      case 'G':
        factor = 1e9;
        break;
      default:
        break;
    }
    if (factor != 1) text.remove_suffix(1);
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) return std::nullopt;
  return number * factor;
}

bool assign(const Parameter* parameters, std::size_t count, const json& config, const std::string& path,
            const MakePart& make_part, std::vector<Value>& values, ConfigProblems& problems) {
  const std::size_t before = problems.size();
  values.assign(count, Value{});
  if (!config.is_object() && !config.is_null()) {
    problems.push_back({path, fmt::format("must be a table, but is {}", short_text(config))});
    return false;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Parameter& p = parameters[i];
    const std::string where = joined(path, p.name);
    const json* given = find(config, p.name);
    const bool nothing = given == nullptr || given->is_null();
    // A table that may be left out as a whole takes its required keys along: the verb says when it cannot do without it.
    const std::size_t dot = where.rfind('.');
    const bool of_absent_table =
        nothing && path.empty() && dot != std::string::npos && find(config, where.substr(0, dot)) == nullptr;
    if (of_absent_table && p.fallback.kind == Default::Kind::absent) continue;
    if (nothing && p.fallback.kind == Default::Kind::none) continue;
    if (nothing && p.fallback.kind == Default::Kind::absent) {
      problems.push_back({where, fmt::format("`{}` must be given: {}", p.name, p.doc)});
      continue;
    }
    // A default goes the way of a given value: what a declaration promises is what a recipe could have written.
    Conversion convert(p, where, below(parameters, count, p.name), make_part, problems);
    if (auto value = convert(nothing ? describe(p).at("default") : *given)) values[i] = *std::move(value);
  }
  return problems.size() == before;
}

void unknown_keys(const Parameter* parameters, std::size_t count, const json& config, const std::string& path,
                  const std::vector<std::string>& others, ConfigProblems& problems) {
  if (!config.is_object()) return;
  std::vector<std::string> known = others;
  for (std::size_t i = 0; i < count; ++i) known.emplace_back(parameters[i].name);
  // A table that is not a parameter itself may lead to some: "schedule" to "schedule.warmup".
  const auto leads_on = [&](const std::string& name) {
    return std::any_of(known.begin(), known.end(), [&](const std::string& k) {
      return k.size() > name.size() && k.compare(0, name.size() + 1, name + ".") == 0;
    });
  };
  const auto walk = [&](const auto& self, const json& table, const std::string& prefix) -> void {
    for (const auto& [key, value] : table.items()) {
      const std::string name = prefix.empty() ? key : prefix + "." + key;
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      if (value.is_object() && leads_on(name)) {
        self(self, value, name);
        continue;
      }
      const std::string near = did_you_mean(name, known);
      problems.push_back(
          {joined(path, name), fmt::format("unknown key `{}`{}{}", printable(name), near.empty() ? "" : "; ", near)});
    }
  };
  walk(walk, config, "");
}

}  // namespace moiety::engine
