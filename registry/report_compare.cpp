// `moiety compare`: the comparison as tables.
#include <fmt/format.h>

#include <set>

#include "kernel/base/text.h"
#include "registry/comparison.h"
#include "registry/table.h"

namespace moiety::registry {

namespace {

using Json = nlohmann::ordered_json;

std::string p_text(double p) { return p < 0.001 ? "<0.001" : fmt::format("{:.3f}", p); }

std::string title_of(const MetricResult& metric) {
  std::string out = metric.stage + "." + metric_title(metric.metric, metric.labels);
  std::vector<std::string> about;
  if (!metric.unit.empty()) about.push_back(metric.unit);
  if (metric.better != 0) about.push_back(metric.better > 0 ? "higher is better" : "lower is better");
  if (!metric.domains.empty()) about.push_back(fmt::format("macro mean of {} domains", metric.domains.size()));
  if (!about.empty()) out += " (" + join(about, ", ") + ")";
  return out;
}

std::string missing_text(const ArmResult& arm) {
  std::vector<std::string> parts;
  const auto add = [&](const std::vector<std::int64_t>& runs, const char* what) {
    if (!runs.empty()) parts.push_back(fmt::format("{} {} (run {})", runs.size(), what, ranges(runs)));
  };
  add(arm.diverged, "diverged");
  add(arm.failed, "failed");
  add(arm.unfinished, "unfinished");
  return join(parts, ", ");
}

int total_runs(const MetricResult& metric) {
  int n = 0;
  for (const auto& arm : metric.arms) n += arm.summary.n;
  return n;
}

Table difference_table(const MetricResult& metric, const Comparison& comparison) {
  Table table({"arm", "mean ± sd (n)", "difference to " + comparison.baseline,
               fmt::format("{:g} % interval", comparison.study.confidence * 100), "p", "p (Holm)", "detectable", "missing"});
  for (const auto& arm : metric.arms) {
    Cell mean = Cell::of_text(mean_text(arm.summary.mean, arm.summary.sd, arm.summary.n));
    std::vector<Cell> row = {Cell::of_text(arm.arm), mean};
    if (arm.baseline) {
      row.insert(row.end(), {Cell::of_text("(baseline)"), Cell::empty(), Cell::empty(), Cell::empty(), Cell::empty()});
    } else if (!arm.difference) {
      row.insert(row.end(), {Cell::of_text("no common seeds"), Cell::empty(), Cell::empty(), Cell::empty(), Cell::empty()});
    } else {
      const double scale = arm.difference->sd;
      row.push_back(Cell::of_text(rounded(arm.difference->mean, scale, true) + fmt::format(" ({})", arm.difference->n)));
      row.push_back(arm.interval ? Cell::of_text(rounded(arm.interval->low, scale, true) + " .. " +
                                                 rounded(arm.interval->high, scale, true))
                                 : Cell::empty());
      row.push_back(arm.p ? Cell::of_text(p_text(*arm.p)) : Cell::empty());
      row.push_back(arm.p_holm ? Cell::of_text(p_text(*arm.p_holm)) : Cell::empty());
      row.push_back(arm.detectable ? Cell::of_text("±" + rounded(*arm.detectable, *arm.detectable)) : Cell::empty());
    }
    row.push_back(Cell::of_text(missing_text(arm)));
    table.add(std::move(row));
  }
  table.drop_empty_columns();
  return table;
}

Table domain_table(const MetricResult& metric) {
  std::vector<std::string> header = {"arm"};
  header.insert(header.end(), metric.domains.begin(), metric.domains.end());
  Table table(header);
  for (const auto& arm : metric.arms) {
    std::vector<Cell> row = {Cell::of_text(arm.arm)};
    for (const auto& domain : metric.domains) {
      const auto found = arm.domains.find(domain);
      row.push_back(found == arm.domains.end() ? Cell::empty()
                                               : Cell::of_text(mean_text(found->second.mean, found->second.sd, found->second.n)));
    }
    table.add(std::move(row));
  }
  return table;
}

Document document_of(const Comparison& comparison) {
  Document out;
  out.line(fmt::format("study {} · {} · baseline {} · paired by seed, {:g} % intervals", comparison.study.name,
                       comparison.study.id, comparison.baseline, comparison.study.confidence * 100));
  for (const auto& warning : comparison.warnings) out.line(warning);
  bool bootstrap = false;
  bool few = false;
  for (const auto& metric : comparison.metrics) {
    out.line("");
    bool missing = false;
    for (const auto& arm : metric.arms) {
      missing = missing || !missing_text(arm).empty();
      bootstrap = bootstrap || (arm.interval && arm.interval->method == "bootstrap-t");
      few = few || (arm.difference && arm.difference->n < 3);
    }
    if (metric.all_equal && !missing) {
      out.line(fmt::format("{}: {} in all {} runs: neither arm nor seed changes anything here", title_of(metric),
                           number(metric.arms.front().summary.mean), total_runs(metric)));
      continue;
    }
    out.line(title_of(metric));
    out.table(difference_table(metric, comparison));
    if (metric.seed_moves_nothing) out.line("the seed changes nothing here: within each arm all values are equal");
    if (comparison.asked_for_metrics && !metric.domains.empty()) out.table(domain_table(metric));
  }
  out.line("");
  for (const auto& note : comparison.notes) out.line(note);
  out.line(fmt::format(
      "intervals: {} on paired differences; p (Holm): corrected over this table; detectable: found four times out of five",
      bootstrap ? "bootstrap-t" : "Student's t"));
  if (few) out.line("fewer than three pairs give no p");
  return out;
}

/// One row an arm and metric, for programs.
Table flat_table(const Comparison& comparison) {
  Table table({"study",  "stage", "metric", "labels",     "unit",     "arm",    "baseline",
               "mean",   "sd",    "n",      "difference", "low",      "high",   "pairs",
               "method", "p",     "p_holm", "detectable", "diverged", "failed", "unfinished"});
  const auto optional = [](const std::optional<double>& value) { return value ? Cell::of_number(*value) : Cell::empty(); };
  const auto count = [](const std::vector<std::int64_t>& runs) {
    return Cell::of_integer(static_cast<std::int64_t>(runs.size()));
  };
  for (const auto& metric : comparison.metrics) {
    for (const auto& arm : metric.arms) {
      const bool some = arm.summary.n > 0;
      table.add({Cell::of_text(comparison.study.id),
                 Cell::of_text(metric.stage),
                 Cell::of_text(metric.metric),
                 Cell::of_text(labels_text(metric.labels)),
                 Cell::of_text(metric.unit),
                 Cell::of_text(arm.arm),
                 Cell::of_text(comparison.baseline),
                 some ? Cell::of_number(arm.summary.mean) : Cell::empty(),
                 arm.summary.n > 1 ? Cell::of_number(arm.summary.sd) : Cell::empty(),
                 Cell::of_integer(arm.summary.n),
                 arm.difference ? Cell::of_number(arm.difference->mean) : Cell::empty(),
                 arm.interval ? Cell::of_number(arm.interval->low) : Cell::empty(),
                 arm.interval ? Cell::of_number(arm.interval->high) : Cell::empty(),
                 arm.difference ? Cell::of_integer(arm.difference->n) : Cell::empty(),
                 arm.interval ? Cell::of_text(arm.interval->method) : Cell::empty(),
                 optional(arm.p),
                 optional(arm.p_holm),
                 optional(arm.detectable),
                 count(arm.diverged),
                 count(arm.failed),
                 count(arm.unfinished)});
    }
  }
  return table;
}

Json json_of(const Comparison& comparison) {
  Json out = {{"study", comparison.study.name},       {"study_id", comparison.study.id},
              {"baseline", comparison.baseline},      {"confidence", comparison.study.confidence},
              {"warnings", comparison.warnings},      {"notes", comparison.notes},
              {"rows", flat_table(comparison).json()}};
  if (!comparison.asked_for_metrics) return out;
  auto domains = Json::array();
  for (const auto& metric : comparison.metrics) {
    for (const auto& arm : metric.arms) {
      for (const auto& [domain, summary] : arm.domains) {
        domains.push_back({{"stage", metric.stage},
                           {"metric", metric.metric},
                           {"labels", metric.labels},
                           {"domain", domain},
                           {"arm", arm.arm},
                           {"mean", summary.mean},
                           {"sd", summary.sd},
                           {"n", summary.n}});
      }
    }
  }
  out["domains"] = domains;
  return out;
}

}  // namespace

Result<std::string> compare_text(Registry& registry, const CompareOptions& options, Format format) {
  const auto comparison = compare_arms(registry.connection().database, options);
  if (!comparison) return pass(comparison);
  if (format == Format::json) return json_text(json_of(*comparison));
  if (format == Format::csv) return flat_table(*comparison).render(Format::csv);
  return document_of(*comparison).render(format);
}

}  // namespace moiety::registry
