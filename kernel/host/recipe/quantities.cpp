#include "kernel/host/recipe/quantities.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "kernel/base/text.h"

namespace moiety::host {
namespace {

constexpr double largest_exact = 9007199254740992.0;  // 2^53

/// A plain decimal number at the beginning; the rest is cut off `text`.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  if (text.empty() || ((text.front() < '0' || text.front() > '9') && text.front() != '.')) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

/// The number with a factor k, M, G directly behind it.
std::optional<double> take_size(std::string_view& text) {
  auto value = take_number(text);
  if (!value || text.empty()) return value;
  const double factor = text.front() == 'k' ? 1e3 : text.front() == 'M' ? 1e6 : text.front() == 'G' ? 1e9 : 0;
  if (factor == 0) return value;
  text.remove_prefix(1);
  // 1.2 × 1e6 is not 1200000 in binary: sizes are written with few digits, so the nearest whole number is meant.
  const double product = *value * factor, whole = std::round(product);
  return std::abs(product - whole) < 1e-12 * std::max(1.0, whole) ? whole : product;
}

bool is_whole(double value) { return value == std::floor(value) && std::abs(value) <= largest_exact; }

}  // namespace

std::optional<std::int64_t> parse_size(std::string_view text) {
  text = trimmed(text);
  const bool negative = !text.empty() && text.front() == '-';
  if (negative) text.remove_prefix(1);
  const auto value = take_size(text);
  if (!value || !text.empty() || !is_whole(*value)) return std::nullopt;
  return static_cast<std::int64_t>(negative ? -*value : *value);
}

std::optional<double> parse_percent(std::string_view text) {
  text = trimmed(text);
  if (text.empty() || text.back() != '%') return std::nullopt;
  const std::string digits(trimmed(text.substr(0, text.size() - 1)));
  // Through the decimal text: 0.7 / 100 is not 0.007 in binary.
  std::string_view scaled = digits;
  if (!take_number(scaled) || !scaled.empty() || digits.find_first_of("eE") != std::string::npos) return std::nullopt;
  const std::string decimal = digits + "e-2";
  scaled = decimal;
  return take_number(scaled);
}

std::optional<std::string> parse_point(std::string_view text, std::string& problem) {
  text = trimmed(text);
  if (const auto share = parse_percent(text)) {
    if (*share <= 1) return number(std::round(*share * 1e14) / 1e12) + "%";
  } else if (std::string ignored; const auto budget = parse_budget(text, ignored)) {
    if (budget->unit == "tokens") {
      auto amount = static_cast<std::int64_t>(budget->amount);
      const char* factor = "";
      for (const char* next : {"k", "M", "G"}) {
        if (amount % 1000 != 0) break;
        amount /= 1000;
        factor = next;
      }
      return std::to_string(amount) + factor + " tokens";
    }
  }
  problem = fmt::format("\"{}\" is no point of a training: write it as \"10%\" or \"400k tokens\"", text);
  return std::nullopt;
}

std::string point_folder(const std::string& point) {
  std::string folder;
  for (const char c : point) {
    if (c == '%')
      folder += "pct";
    else
      folder += c == ' ' ? '-' : c;
  }
  return folder;
}

nlohmann::json Budget::to_json() const {
  nlohmann::json json = {{"unit", unit}};
  if (!of.empty()) {
    json["of"] = of;
    return json;
  }
  if (is_whole(amount)) {
    json["amount"] = static_cast<std::int64_t>(amount);
  } else {
    json["amount"] = amount;
  }
  return json;
}

std::string Budget::text() const {
  if (unit == "rest") return unit;
  if (!of.empty()) return unit + " of " + of;
  return (is_whole(amount) ? std::to_string(static_cast<std::int64_t>(amount)) : number(amount)) + " " + unit;
}

std::optional<Budget> parse_budget(std::string_view text, std::string& problem) {
  static constexpr std::array<const char*, 4> units = {"tokens", "steps", "epochs", "examples"};
  text = trimmed(text);
  if (text == "rest") return Budget{1, "rest", ""};
  if (const auto of = text.find(" of "); of != std::string_view::npos) {
    const std::string unit(trimmed(text.substr(0, of))), arm(trimmed(text.substr(of + 4)));
    if ((unit == "flops" || unit == "tokens") && !arm.empty()) return Budget{1, unit, arm};
    if (unit == "seconds") {
      problem = fmt::format(
          "the budget \"{}\" is not known in this version: measured seconds differ from run to run, so nothing "
          "trained by them could be found again; write \"flops of {}\"",
          text, arm);
      return std::nullopt;
    }
  }
  std::string_view rest = text;
  const auto amount = take_size(rest);
  rest = trimmed(rest);
  if (!amount) {
    problem = fmt::format(
        "\"{}\" is not a budget: write it as \"1.2M tokens\", \"586 steps\", \"2 epochs\", \"15k examples\", \"1e15 flops\", "
        "\"rest\" or \"flops of ARM\"",
        text);
    return std::nullopt;
  }
  if (rest == "flops" && *amount > 0) return Budget{*amount, "flops", ""};
  for (const char* unit : units) {
    const std::string plural = unit;
    if (rest != plural && rest != plural.substr(0, plural.size() - 1)) continue;
    if (*amount <= 0) {
      problem = fmt::format("the budget \"{}\" is nothing: it must be above 0", text);
      return std::nullopt;
    }
    if (plural != "epochs" && !is_whole(*amount)) {
      problem = fmt::format("the budget \"{}\" is not a whole number of {}", text, plural);
      return std::nullopt;
    }
    return Budget{*amount, plural, ""};
  }
  problem = rest.empty()
                ? fmt::format("the budget \"{}\" has no unit: tokens, steps, epochs, examples or flops", text)
                : fmt::format("the budget \"{}\" has an unknown unit `{}`: tokens, steps, epochs, examples or flops", text, rest);
  return std::nullopt;
}

std::optional<SizeText> parse_model_size(std::string_view text) {
  text = trimmed(text);
  for (const bool active : {false, true}) {
    const std::string_view start = active ? "active parameters of " : "total parameters of ";
    if (text.substr(0, start.size()) != start) continue;
    const auto arm = trimmed(text.substr(start.size()));
    if (!arm.empty()) return SizeText{active, std::string(arm)};
  }
  return std::nullopt;
}

bool is_layer_rule(std::string_view text) {
  if (text == "all") return true;
  for (const std::string_view word : {"last ", "every "}) {
    if (text.substr(0, word.size()) != word) continue;
    const auto digits = text.substr(word.size());
    if (digits.empty() || digits.size() > 6 || digits.front() == '0') return false;
    return digits.find_first_not_of("0123456789") == std::string_view::npos;
  }
  return false;
}

std::optional<double> parse_duration(std::string_view text) {
  static constexpr std::array<std::pair<const char*, double>, 5> units = {
      {{"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}}};
  text = trimmed(text);
  const auto amount = take_number(text);
  text = trimmed(text);
  if (!amount || *amount <= 0) return std::nullopt;
  for (const auto& [unit, seconds] : units) {
    if (text == unit) return *amount * seconds;
  }
  return std::nullopt;
}

std::optional<std::int64_t> parse_memory(std::string_view text) {
  static constexpr std::array<std::pair<const char*, double>, 7> units = {{{"KiB", 1024.0},
                                                                           {"MiB", 1048576.0},
                                                                           {"GiB", 1073741824.0},
                                                                           {"TiB", 1099511627776.0},
                                                                           {"MB", 1e6},
                                                                           {"GB", 1e9},
                                                                           {"TB", 1e12}}};
  text = trimmed(text);
  const auto amount = take_number(text);
  text = trimmed(text);
  if (!amount || *amount <= 0) return std::nullopt;
  for (const auto& [unit, bytes] : units) {
    if (text == unit && *amount * bytes <= largest_exact) return static_cast<std::int64_t>(*amount * bytes);
  }
  return std::nullopt;
}

}  // namespace moiety::host
