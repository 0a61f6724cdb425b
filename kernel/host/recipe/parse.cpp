#include "kernel/host/recipe/parse.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <cmath>
#include <functional>

namespace moiety::host {
namespace {

/// TOML++ recurses over dotted keys and brackets without a limit of ours, and so do the destructors of what it builds: this
/// looks for too deep nesting before it is asked. Returns the place of the first excess.
std::optional<Place> too_deep(std::string_view text) {
  int line = 1, brackets = 0, dots = 0;
  std::size_t line_begin = 0;
  const auto here = [&](std::size_t i) { return Place{0, line, static_cast<int>(i - line_begin) + 1, 1}; };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const bool triple = text.substr(i, 3) == std::string(3, c);
      std::size_t j = i + (triple ? 3 : 1);
      for (; j < text.size(); ++j) {
        if (text[j] == '\\' && c == '"') {
          ++j;
        } else if (text[j] == '\n') {
          if (!triple) break;
          ++line;
          line_begin = j + 1;
        } else if (text[j] == c && (!triple || text.substr(j, 3) == std::string(3, c))) {
          if (triple) {
            j += 2;
            for (int extra = 0; extra < 2 && j + 1 < text.size() && text[j + 1] == c; ++extra) ++j;
          }
          break;
        }
      }
      i = j;
      if (i < text.size() && text[i] == '\n') --i;
    } else if (c == '#') {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if (c == '\n') {
      ++line;
      line_begin = i + 1;
      dots = 0;
    } else if (c == '.') {
      if (++dots >= most_nesting) return here(i);
    } else if (c == '[' || c == '{') {
      dots = 0;
      if (++brackets > most_nesting) return here(i);
    } else if (c == ']' || c == '}') {
      dots = 0;
      if (brackets > 0) --brackets;
    } else if (c == '=' || c == ',') {
      dots = 0;
    }
  }
  return std::nullopt;
}

/// What TOML++ says without its "Error while parsing key-value pair: ".
std::string in_short(std::string_view description) {
  const auto colon = description.find(": ");
  if (description.rfind("Error while", 0) == 0 && colon != std::string_view::npos) description.remove_prefix(colon + 2);
  return std::string(description);
}

class Converter {
 public:
  Converter(int source, Diagnostics* diagnostics) : source_(source), diagnostics_(diagnostics) {}

  Place place(const toml::source_region& region) const {
    Place result{source_, static_cast<int>(region.begin.line), static_cast<int>(region.begin.column), 1};
    if (region.end.line == region.begin.line && region.end.column > region.begin.column) {
      result.length = static_cast<int>(region.end.column - region.begin.column);
    }
    return result;
  }

  std::optional<Value> convert(const toml::node& node, int depth) {
    Value result;
    if (const auto* table = node.as_table()) {
      result = Value::table();
      if (depth > most_nesting) return refuse(node, fmt::format("tables are nested deeper than {} levels", most_nesting));
      for (auto&& [key, child] : *table) {
        auto value = convert(child, depth + 1);
        if (!value) return std::nullopt;
        result.set(std::string(key.str()), std::move(*value), place(key.source()));
      }
    } else if (const auto* array = node.as_array()) {
      result = Value::array();
      if (depth > most_nesting) return refuse(node, fmt::format("lists are nested deeper than {} levels", most_nesting));
      for (auto&& child : *array) {
        auto value = convert(child, depth + 1);
        if (!value) return std::nullopt;
        result.items.push_back(std::move(*value));
      }
    } else if (const auto* text = node.as_string()) {
      if (text->get().size() > most_text_bytes) return refuse(node, fmt::format("text is longer than {} bytes", most_text_bytes));
      result = Value::of(text->get());
    } else if (const auto* integer = node.as_integer()) {
      result = Value::of(static_cast<std::int64_t>(integer->get()));
    } else if (const auto* number = node.as_floating_point()) {
      if (!std::isfinite(number->get())) return refuse(node, "a number in a recipe is finite");
      result = Value::of(number->get());
    } else if (const auto* boolean = node.as_boolean()) {
      result = Value::of(boolean->get());
    } else {
      return refuse(node, "dates and times have no use in a recipe; write text in quotes");
    }
    result.place = place(node.source());
    return result;
  }

 private:
  std::optional<Value> refuse(const toml::node& node, const std::string& message) {
    if (diagnostics_ != nullptr) diagnostics_->error(place(node.source()), message);
    return std::nullopt;
  }

  int source_;
  Diagnostics* diagnostics_;
};

}  // namespace

std::optional<Value> parse_toml(std::string_view text, int source, Diagnostics& diagnostics) {
  if (text.size() > most_recipe_bytes) {
    diagnostics.error({source, 0, 0, 0},
                      fmt::format("the file has {} bytes; a recipe has at most {}", text.size(), most_recipe_bytes));
    return std::nullopt;
  }
  if (auto deep = too_deep(text)) {
    deep->source = source;
    diagnostics.error(*deep, fmt::format("nested deeper than {} levels", most_nesting));
    return std::nullopt;
  }
  try {
    const toml::table table = toml::parse(text);
    return Converter(source, &diagnostics).convert(table, 0);
  } catch (const toml::parse_error& error) {
    Place place{source, static_cast<int>(error.source().begin.line), static_cast<int>(error.source().begin.column), 1};
    diagnostics.error(place, "not valid TOML: " + in_short(error.description()));
  }
  return std::nullopt;
}

std::optional<Value> parse_argument(std::string_view text, const Place& place) {
  const auto first = text.find_first_not_of(" \t");
  const std::string_view value = first == std::string_view::npos ? std::string_view{} : text.substr(first);
  const auto located = [&](Value result) {
    const std::function<void(Value&)> locate = [&](Value& part) {
      part.place = place;
      for (auto& item : part.items) locate(item);
      for (auto& [key, member] : part.members) {
        member.key = place;
        locate(member.value);
      }
    };
    locate(result);
    return result;
  };
  if (value.size() > most_text_bytes || too_deep(value)) return std::nullopt;
  try {
    const toml::table table = toml::parse(fmt::format("x = {}", value));
    if (table.size() == 1) {
      if (auto converted = Converter(0, nullptr).convert(*table.get("x"), 0)) return located(std::move(*converted));
    }
  } catch (const toml::parse_error&) {
    // A bare word is not TOML: it is taken as text below.
  }
  if (!value.empty() && std::string_view("[{\"'").find(value.front()) != std::string_view::npos) return std::nullopt;
  return located(Value::of(std::string(text)));
}

}  // namespace moiety::host
