// JSON configuration → typed values, by declaration. Serves components and the stages' own parameters alike.
//
//   struct Options { std::int64_t batch; double learning_rate; };
//   static constexpr Parameter parameters[] = { param<&Options::batch>("batch", 16, "windows a step"), … };
//   ConfigProblems problems;
//   const Options o = read_options<Options>(parameters, job["config"], "", nullptr, problems);
#ifndef MOIETY_KERNEL_ENGINE_PLUGINS_ASSIGN_H_
#define MOIETY_KERNEL_ENGINE_PLUGINS_ASSIGN_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "moiety/params.h"

namespace moiety::engine {

/// Why a configuration cannot be: `path` is where in the stage's text ("feed_forward.router.k").
struct ConfigProblem {
  std::string path, message;
};
using ConfigProblems = std::vector<ConfigProblem>;

/// Makes the part that a component parameter names; null after adding to the problems.
using MakePart = std::function<std::shared_ptr<Component>(const Parameter& parameter, const nlohmann::json& config,
                                                          const std::string& path, ConfigProblems& problems)>;

/// "1.2M" → 1.2e6; k, M and G are powers of a thousand.
std::optional<double> size_of(std::string_view text);

/// values[i] for parameters[i] out of `config`, an object; what is not there gets its default. `path` is the text's place, "" or
/// "feed_forward.router". Keys that no parameter declares are left alone (see unknown_keys). False after adding to `problems`.
/// Sizes ("1.2M"), budgets ("15k examples" or {"amount","unit"}) and layers ("last 2" or numbers) may come as text or resolved.
bool assign(const Parameter* parameters, std::size_t count, const nlohmann::json& config, const std::string& path,
            const MakePart& make_part, std::vector<Value>& values, ConfigProblems& problems);

/// Adds a problem, with near names, for each key of `config` that neither a parameter nor `others` ("do", "feed_forward") names.
void unknown_keys(const Parameter* parameters, std::size_t count, const nlohmann::json& config, const std::string& path,
                  const std::vector<std::string>& others, ConfigProblems& problems);

/// An Options filled from `config`. Look at `problems` before using it.
template <class Options, std::size_t n>
Options read_options(const Parameter (&parameters)[n], const nlohmann::json& config, const std::string& path,
                     const MakePart& make_part, ConfigProblems& problems) {
  Options options{};
  std::vector<Value> values;
  if (assign(parameters, n, config, path, make_part, values, problems)) {
    for (std::size_t i = 0; i < n; ++i) parameters[i].set(&options, values[i]);
  }
  return options;
}

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_PLUGINS_ASSIGN_H_
