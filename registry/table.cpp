#include "registry/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "kernel/base/text.h"
#include "registry/row_printer.h"

namespace moiety::registry {

namespace {

bool reads_as_number(const std::string& text) {
  char* end = nullptr;
  (void)std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0';
}

}  // namespace

std::vector<std::string> unique_names(const std::vector<std::string>& header) {
  std::vector<std::string> out;
  for (const auto& name : header) {
    std::string candidate = name;
    for (int i = 2; std::find(out.begin(), out.end(), candidate) != out.end(); ++i) candidate = fmt::format("{}_{}", name, i);
    out.push_back(candidate);
  }
  return out;
}

Cell Cell::empty() { return {}; }
Cell Cell::of_text(const std::string& text) { return {text, text, false}; }
Cell Cell::of_integer(std::int64_t value) { return {std::to_string(value), value, true}; }
Cell Cell::of_number(double value, const std::string& shown) {
  return {shown.empty() || !std::isfinite(value) ? number(value) : shown, json_number(value), true};
}

nlohmann::ordered_json json_number(double value) {
  if (std::isfinite(value)) return value;
  return number(value);
}

std::string json_text(const nlohmann::ordered_json& document) {
  return document.dump(1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string csv_cell(const std::string& text, bool is_number) {
  std::string out = printable(text);
  // A spreadsheet would run such a cell as a formula.
  if (!is_number && !reads_as_number(out) && !out.empty() && std::string_view("=+-@").find(out.front()) != std::string_view::npos)
    out.insert(out.begin(), '\'');
  if (out.find_first_of("\",\n\r") == std::string::npos) return out;
  std::string quoted = "\"";
  for (const char c : out) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::string markdown_text(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '<') {
      out += "&lt;";
      continue;
    }
    if (c == '&') {
      out += "&amp;";
      continue;
    }
    if (std::string_view("\\`*_[]|#!").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

void Table::drop_empty_columns() {
  for (std::size_t column = header_.size(); column-- > 0;) {
    const bool used = std::any_of(rows_.begin(), rows_.end(), [&](const auto& row) { return !row[column].text.empty(); });
    if (used) continue;
    header_.erase(header_.begin() + static_cast<std::ptrdiff_t>(column));
    for (auto& row : rows_) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
  }
}

nlohmann::ordered_json Table::json() const {
  auto out = nlohmann::ordered_json::array();
  const auto names = unique_names(header_);
  for (const auto& row : rows_) {
    auto object = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < row.size(); ++i) object[names[i]] = row[i].value;
    out.push_back(object);
  }
  return out;
}

std::string Table::render(Format format) const {
  std::string out;
  const auto append = [&out](const std::string& text) {
    out += text;
    return true;
  };
  const auto all = std::numeric_limits<std::size_t>::max();
  RowPrinter printer(header_, format, append, {all, all});
  for (const auto& row : rows_) printer.add(row);
  printer.finish();
  return out;
}

std::string Document::render(Format format) const {
  std::string out;
  for (const auto& part : parts_) {
    if (const auto* line = std::get_if<std::string>(&part)) {
      if (format == Format::csv) continue;
      out += (format == Format::markdown ? markdown_text(*line) : printable(*line)) + "\n";
      continue;
    }
    if (!out.empty() && format == Format::csv) out += "\n";
    // Markdown needs an empty line before a table.
    if (!out.empty() && format == Format::markdown && out.back() == '\n' && (out.size() < 2 || out[out.size() - 2] != '\n'))
      out += "\n";
    out += std::get<Table>(part).render(format);
  }
  return out;
}

std::string rounded(double value, double scale, bool sign) {
  if (!std::isfinite(value)) return number(value);
  if (!(scale > 0) || !std::isfinite(scale)) return sign ? fmt::format("{:+.5g}", value) : fmt::format("{:.5g}", value);
  const int decimals = std::clamp(1 - static_cast<int>(std::floor(std::log10(scale))), 0, 12);
  return sign ? fmt::format("{:+.{}f}", value, decimals) : fmt::format("{:.{}f}", value, decimals);
}

std::string mean_text(double mean, double sd, int n) {
  if (n == 0) return "-";
  if (n == 1) return fmt::format("{:.5g} (1)", mean);
  if (!(sd > 0)) return fmt::format("{:.5g} ± 0 ({})", mean, n);
  return fmt::format("{} ± {} ({})", rounded(mean, sd), rounded(sd, sd), n);
}

std::string ago(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s ago", std::max(0.0, seconds));
  if (seconds < 90 * 60) return fmt::format("{:.0f} min ago", seconds / 60);
  if (seconds < 36 * 3600) return fmt::format("{:.0f} h ago", seconds / 3600);
  return fmt::format("{:.0f} days ago", seconds / 86400);
}

std::string ranges(std::vector<std::int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::vector<std::string> out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t j = i;
    while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
    out.push_back(i == j ? std::to_string(numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[j]));
    i = j + 1;
  }
  return join(out, " ");
}

}  // namespace moiety::registry
