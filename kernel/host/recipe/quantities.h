// Quantities that recipes write as text: sizes ("1.2M"), budgets ("15k examples"), layers ("last 2"), times and memory.
#ifndef MOIETY_KERNEL_HOST_RECIPE_QUANTITIES_H_
#define MOIETY_KERNEL_HOST_RECIPE_QUANTITIES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace moiety::host {

/// "1.2M" → 1200000; k = 1e3, M = 1e6, G = 1e9. Nothing when it is no whole number of at most 2^53.
std::optional<std::int64_t> parse_size(std::string_view text);

/// "2%" → 0.02.
std::optional<double> parse_percent(std::string_view text);

/// How long a stage trains.
struct Budget {
  double amount = 0;
  std::string unit;  ///< tokens, steps, epochs, examples, flops, or rest: to the end of the schedule that it continues (amount 1)
  std::string of;    ///< an arm: so long that the flops or tokens (unit) of both arms are equal; the amount says nothing

  nlohmann::json to_json() const;  ///< {"amount": 15000, "unit": "examples"}
  std::string text() const;        ///< "15000 examples"
};
/// Only epochs may be a fraction. `problem` says what is wrong when nothing is returned.
std::optional<Budget> parse_budget(std::string_view text, std::string& problem);

/// "total parameters of ARM", "active parameters of ARM": a size of [model] that is found so that both arms have as many.
struct SizeText {
  bool active = false;
  std::string of;
};
std::optional<SizeText> parse_model_size(std::string_view text);

/// A point of a stage that trains: "10%", "400000 tokens" → "400k tokens". Nothing and a problem for anything else.
std::optional<std::string> parse_point(std::string_view text, std::string& problem);
/// The folder of that point below `snapshots`: "10pct", "400k-tokens".
std::string point_folder(const std::string& point);

/// "all", "last 2", "every 2".
bool is_layer_rule(std::string_view text);

/// "10 min", "30 s", "1.5 h" → seconds.
std::optional<double> parse_duration(std::string_view text);
/// "4 GiB", "512 MiB", "2 GB" → bytes.
std::optional<std::int64_t> parse_memory(std::string_view text);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_QUANTITIES_H_
