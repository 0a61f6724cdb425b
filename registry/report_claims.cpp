// `moiety claims`: what the recipe claimed, and what its runs say.
#include <fmt/format.h>

#include "kernel/base/text.h"
#include "registry/report.h"
#include "registry/report_common.h"
#include "registry/table.h"

namespace moiety::registry {

namespace {

struct Line {
  std::string claim, that, statement, verdict, reason, unit, source, published, adjusted;
  std::optional<double> effect, low, high;
  std::optional<std::int64_t> n;
  std::vector<std::int64_t> runs;
};

std::string effect_text(const Line& line) {
  if (!line.effect) return {};
  const double scale = line.low && line.high ? (*line.high - *line.low) / 2 : 0;
  std::string out = rounded(*line.effect, scale, true);
  if (line.low && line.high) out += fmt::format(" ({} .. {})", rounded(*line.low, scale, true), rounded(*line.high, scale, true));
  if (!line.unit.empty()) out += " " + line.unit;
  return out;
}

Document document_of(const StudyInfo& study, const std::vector<Line>& lines) {
  Document out;
  out.line(fmt::format("study {} · {} · {:g} % intervals", study.name, study.id, study.confidence * 100));
  std::string last;
  for (const auto& line : lines) {
    const bool part = line.claim == last && !line.statement.empty();
    if (!part) {
      out.line("");
      out.line(fmt::format("{}: {}{}", line.claim, line.verdict,
                           line.adjusted.empty() || line.adjusted == line.verdict
                               ? ""
                               : fmt::format(" (after Holm over all claims: {})", line.adjusted)));
      out.line("  " + (line.statement.empty() ? line.that : line.statement));
      std::string from = line.source;
      if (!line.published.empty()) from += fmt::format("{}published: {}", from.empty() ? "" : "; ", line.published);
      if (!from.empty()) out.line("  from: " + from);
    } else {
      out.line(fmt::format("  {}: {}", line.statement, line.verdict));
    }
    last = line.claim;
    const std::string indent = part ? "    " : "  ";
    if (const auto effect = effect_text(line); !effect.empty())
      out.line(fmt::format("{}effect {}, n = {}", indent, effect, line.n.value_or(0)));
    if (!line.reason.empty()) out.line(indent + line.reason);
    if (!line.runs.empty()) out.line(fmt::format("{}runs {}", indent, ranges(line.runs)));
  }
  return out;
}

Table table_of(const std::vector<Line>& lines) {
  Table table({"claim", "verdict", "statement", "effect", "low", "high", "n", "unit", "reason", "runs", "source", "published",
               "adjusted"});
  const auto optional = [](const std::optional<double>& value) { return value ? Cell::of_number(*value) : Cell::empty(); };
  for (const auto& line : lines) {
    table.add({Cell::of_text(line.claim), Cell::of_text(line.verdict),
               Cell::of_text(line.statement.empty() ? line.that : line.statement), optional(line.effect), optional(line.low),
               optional(line.high), line.n ? Cell::of_integer(*line.n) : Cell::empty(), Cell::of_text(line.unit),
               Cell::of_text(line.reason), Cell::of_text(ranges(line.runs)), Cell::of_text(line.source),
               Cell::of_text(line.published), Cell::of_text(line.adjusted)});
  }
  return table;
}

}  // namespace

Result<std::string> claims_text(Registry& registry, const std::string& study_filter, Format format) {
  auto& database = registry.connection().database;
  const auto study = find_study(database, study_filter);
  if (!study) return pass(study);
  std::vector<Line> lines;
  const auto status = database.each(
      "SELECT claim.id, claim.that, verdict.statement, verdict.verdict, verdict.reason, verdict.unit, claim.source, "
      "claim.published, "
      "verdict.effect, verdict.low, verdict.high, verdict.n, (SELECT group_concat(run, ' ') FROM verdict_run WHERE verdict = "
      "verdict.key), ifnull(verdict.adjusted, '') "
      "FROM claim LEFT JOIN verdict ON verdict.study = claim.study AND verdict.claim = claim.id WHERE claim.study = ? "
      "ORDER BY claim.position, claim.id, verdict.statement <> '', verdict.position",
      {study->key}, [&](const Query& row) {
        Line line{row.text(0), row.text(1),  row.text(2), row.text(3), row.text(4), row.text(5), row.text(6),
                  row.text(7), row.text(13), {},          {},          {},          {},          {}};
        const auto real = [&](int column) { return row.null(column) ? std::optional<double>() : row.real(column); };
        line.effect = real(8);
        line.low = real(9);
        line.high = real(10);
        if (!row.null(11)) line.n = row.integer(11);
        for (const auto& run : split(row.text(12), ' ')) {
          if (!run.empty()) line.runs.push_back(std::stoll(run));
        }
        if (line.verdict.empty()) {
          line.verdict = "not judged";
          line.reason = "the study has not come to its end";
        }
        lines.push_back(std::move(line));
      });
  if (!status) return pass(status);
  if (lines.empty() && (format == Format::table || format == Format::markdown))
    return fmt::format("study {} states no claims\n", study->name);
  if (format == Format::table) return document_of(*study, lines).render(format);
  return table_of(lines).render(format);
}

}  // namespace moiety::registry
