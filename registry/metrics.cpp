// Metric rows: values with their flag for NaN and infinities, and a summary row a series that is kept while writing.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "registry/internal.h"

namespace moiety::registry {

namespace {

int nonfinite_flag(double value) { return std::isnan(value) ? 1 : std::isinf(value) ? (value > 0 ? 2 : 3) : 0; }

Value stored(double value) { return std::isnan(value) ? Value(nullptr) : Value(value); }

double loaded(const Query& row, int column) {
  return row.null(column) ? std::numeric_limits<double>::quiet_NaN() : row.real(column);
}

/// What metric_summary holds of one series.
struct SeriesSummary {
  std::int64_t n = 0, n_nonfinite = 0, first_step = 0, last_step = 0;
  double first = 0, last = 0;
  std::optional<double> min, max;
  std::int64_t min_step = 0, max_step = 0;

  void add(std::int64_t step, double value) {
    if (n++ == 0) {
      first_step = step;
      first = value;
    }
    last_step = step;
    last = value;
    if (!std::isfinite(value)) {
      ++n_nonfinite;
      return;
    }
    if (!min || value < *min) std::tie(min, min_step) = std::make_tuple(std::optional<double>(value), step);
    if (!max || value > *max) std::tie(max, max_step) = std::make_tuple(std::optional<double>(value), step);
  }
};

struct SeriesKey {
  std::int64_t stage, name, label;
  bool operator<(const SeriesKey& other) const {
    return std::tie(stage, name, label) < std::tie(other.stage, other.name, other.label);
  }
};

Result<SeriesSummary> load_summary(Database& database, const SeriesKey& key) {
  SeriesSummary out;
  const auto status = database.each(
      "SELECT n, n_nonfinite, first_step, first, last_step, last, min, min_step, max, max_step FROM metric_summary "
      "WHERE stage = ? AND name = ? AND label = ?",
      {key.stage, key.name, key.label}, [&](const Query& row) {
        out.n = row.integer(0);
        out.n_nonfinite = row.integer(1);
        out.first_step = row.integer(2);
        out.first = loaded(row, 3);
        out.last_step = row.integer(4);
        out.last = loaded(row, 5);
        if (!row.null(6)) out.min = row.real(6);
        out.min_step = row.integer(7);
        if (!row.null(8)) out.max = row.real(8);
        out.max_step = row.integer(9);
      });
  if (!status) return pass(status);
  return out;
}

Status store_summary(Database& database, const SeriesKey& key, const SeriesSummary& s) {
  return database.execute(
      "INSERT OR REPLACE INTO metric_summary(stage, name, label, n, n_nonfinite, first_step, first, first_nonfinite, last_step, "
      "last, "
      "last_nonfinite, min, min_step, max, max_step) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      {key.stage, key.name, key.label, s.n, s.n_nonfinite, s.first_step, stored(s.first), nonfinite_flag(s.first), s.last_step,
       stored(s.last), nonfinite_flag(s.last), s.min, s.min ? Value(s.min_step) : Value(nullptr), s.max,
       s.max ? Value(s.max_step) : Value(nullptr)});
}

/// Rows usually come in the order of their steps, behind those already there: then the summary is extended. A resumed stage
/// writes steps again, which replace; then the series is read anew.
Status update_summary(Database& database, const SeriesKey& key, const std::vector<std::pair<std::int64_t, double>>& added) {
  auto summary = load_summary(database, key);
  if (!summary) return pass(summary);
  bool in_order = true;
  std::int64_t last = summary->n > 0 ? summary->last_step : std::numeric_limits<std::int64_t>::min();
  for (const auto& [step, value] : added) {
    in_order = in_order && (step > last || (summary->n == 0 && last == std::numeric_limits<std::int64_t>::min()));
    last = step;
  }
  if (in_order) {
    for (const auto& [step, value] : added) summary->add(step, value);
    return store_summary(database, key, *summary);
  }
  SeriesSummary again;
  if (auto status =
          database.each("SELECT step, value FROM metric WHERE stage = ? AND name = ? AND label = ? ORDER BY step",
                        {key.stage, key.name, key.label}, [&](const Query& row) { again.add(row.integer(0), loaded(row, 1)); });
      !status) {
    return status;
  }
  return store_summary(database, key, again);
}

Result<std::vector<MetricRow>> read_rows(Database& database, const std::string& sql, const std::string& stage_id) {
  std::vector<MetricRow> rows;
  const auto status = database.each(sql, {stage_id}, [&](const Query& row) {
    rows.push_back({row.text(0), labels_of(row.text(1)), row.integer(2), loaded(row, 3)});
  });
  if (!status) return pass(status);
  return rows;
}

}  // namespace

std::string labels_text(const Labels& labels) {
  // std::map and nlohmann::json both sort by key: equal sets of labels have equal text.
  return nlohmann::json(labels).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Labels labels_of(const std::string& text) {
  Labels out;
  const auto parsed = nlohmann::json::parse(text, nullptr, false);
  if (!parsed.is_object()) return out;
  for (const auto& [key, value] : parsed.items()) out[key] = value.is_string() ? value.get<std::string>() : value.dump();
  return out;
}

void MetricSink::forget() {
  names_.clear();
  labels_.clear();
}

Result<std::int64_t> MetricSink::name_key(Database& database, const std::string& name) {
  if (const auto found = names_.find(name); found != names_.end()) return found->second;
  if (auto status = database.execute("INSERT OR IGNORE INTO metric_name(name, unit, better, doc) VALUES(?, '', 0, '')", {name});
      !status) {
    return pass(status);
  }
  const auto key = database.integer("SELECT key FROM metric_name WHERE name = ?", {name});
  if (!key) return pass(key);
  return names_[name] = **key;
}

Result<std::int64_t> MetricSink::label_key(Database& database, const Labels& labels) {
  if (const auto found = labels_.find(labels); found != labels_.end()) return found->second;
  const auto text = labels_text(labels);
  if (auto status = database.execute("INSERT OR IGNORE INTO label(labels) VALUES(?)", {text}); !status) return pass(status);
  const auto key = database.integer("SELECT key FROM label WHERE labels = ?", {text});
  if (!key) return pass(key);
  for (const auto& [name, value] : labels) {
    if (auto status = database.execute("INSERT OR IGNORE INTO label_kv(label, key, value) VALUES(?, ?, ?)", {**key, name, value});
        !status) {
      return pass(status);
    }
  }
  return labels_[labels] = **key;
}

Status MetricSink::write(Database& database, std::int64_t stage, const std::vector<MetricRow>& rows) {
  std::map<SeriesKey, std::vector<std::pair<std::int64_t, double>>> series;
  for (const auto& row : rows) {
    const auto name = name_key(database, row.name);
    if (!name) return pass(name);
    const auto label = label_key(database, row.labels);
    if (!label) return pass(label);
    if (auto status =
            database.execute("INSERT OR REPLACE INTO metric(stage, name, label, step, value, nonfinite) VALUES(?, ?, ?, ?, ?, ?)",
                             {stage, *name, *label, row.step, stored(row.value), nonfinite_flag(row.value)});
        !status) {
      return status;
    }
    series[{stage, *name, *label}].emplace_back(row.step, row.value);
  }
  for (const auto& [key, added] : series) {
    if (auto status = update_summary(database, key, added); !status) return status;
  }
  return {};
}

Status Registry::declare_metrics(const std::vector<MetricDeclaration>& metrics) {
  auto& database = connection_->database;
  return database.transaction([&]() -> Status {
    for (const auto& metric : metrics) {
      if (auto status = database.execute(
              "INSERT INTO metric_name(name, unit, better, doc) VALUES(?, ?, ?, ?) "
              "ON CONFLICT(name) DO UPDATE SET unit = excluded.unit, better = excluded.better, doc = excluded.doc",
              {metric.name, metric.unit, metric.better, metric.doc});
          !status) {
        return status;
      }
    }
    return {};
  });
}

Status Registry::write_metrics(const std::string& stage_id, const std::vector<MetricRow>& rows) {
  auto& database = connection_->database;
  const auto status = database.transaction([&]() -> Status {
    const auto stage = stage_key(database, stage_id);
    if (!stage) return pass(stage);
    return connection_->sink.write(database, *stage, rows);
  });
  if (!status) connection_->sink.forget();
  return status;
}

Result<std::vector<MetricRow>> Registry::final_metrics(const std::string& stage_id) {
  return read_rows(connection_->database,
                   "SELECT metric_name.name, label.labels, last_step, last FROM metric_summary "
                   "JOIN metric_name ON metric_name.key = metric_summary.name JOIN label ON label.key = metric_summary.label "
                   "WHERE stage = (SELECT key FROM stage WHERE id = ?) ORDER BY 1, 2",
                   stage_id);
}

Result<std::vector<MetricRow>> Registry::series(const std::string& stage_id) {
  return read_rows(connection_->database,
                   "SELECT metric_name.name, label.labels, step, value FROM metric "
                   "JOIN metric_name ON metric_name.key = metric.name JOIN label ON label.key = metric.label "
                   "WHERE stage = (SELECT key FROM stage WHERE id = ?) ORDER BY 1, 2, 3",
                   stage_id);
}

}  // namespace moiety::registry
