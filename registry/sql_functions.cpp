// The aggregates that `moiety sql` adds to SQLite's: stddev, median, ci95. NULL (NaN among them) is skipped, as in avg.
#include "registry/sql_functions.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "registry/statistics.h"

namespace moiety::registry {

namespace {

using Values64 = std::vector<double>;

/// SQLite's aggregate context is zeroed memory: it holds a pointer to the values, made at the first row and freed at the end.
Values64** slot(sqlite3_context* context, bool make) {
  auto** pointer = static_cast<Values64**>(sqlite3_aggregate_context(context, make ? sizeof(Values64*) : 0));
  if (pointer != nullptr && *pointer == nullptr && make) *pointer = new Values64;
  return pointer;
}

void step(sqlite3_context* context, int, sqlite3_value** arguments) {
  auto** values = slot(context, true);
  if (values == nullptr) return sqlite3_result_error_nomem(context);
  const int type = sqlite3_value_numeric_type(arguments[0]);
  if (type == SQLITE_INTEGER || type == SQLITE_FLOAT) (*values)->push_back(sqlite3_value_double(arguments[0]));
}

template <class Finish>
void finish(sqlite3_context* context, Finish compute) {
  auto** pointer = slot(context, false);
  Values64 values;
  if (pointer != nullptr && *pointer != nullptr) {
    values = std::move(**pointer);
    delete *pointer;
    *pointer = nullptr;
  }
  if (const auto result = compute(values)) return sqlite3_result_double(context, *result);
  sqlite3_result_null(context);
}

void finish_stddev(sqlite3_context* context) {
  finish(context, [](const Values64& values) -> std::optional<double> {
    if (values.size() < 2) return std::nullopt;
    return summarise(values).sd;
  });
}

void finish_median(sqlite3_context* context) {
  finish(context, [](Values64& values) -> std::optional<double> {
    if (values.empty()) return std::nullopt;
    std::sort(values.begin(), values.end());
    const auto half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  });
}

void finish_ci95(sqlite3_context* context) {
  finish(context, [](const Values64& values) -> std::optional<double> {
    const Summary summary = summarise(values);
    if (summary.n < 2) return std::nullopt;
    return student_t_quantile(0.975, summary.n - 1) * summary.sd / std::sqrt(summary.n);
  });
}

}  // namespace

void add_sql_functions(sqlite3* connection) {
  const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
  sqlite3_create_function_v2(connection, "stddev", 1, flags, nullptr, nullptr, step, finish_stddev, nullptr);
  sqlite3_create_function_v2(connection, "median", 1, flags, nullptr, nullptr, step, finish_median, nullptr);
  sqlite3_create_function_v2(connection, "ci95", 1, flags, nullptr, nullptr, step, finish_ci95, nullptr);
}

}  // namespace moiety::registry
