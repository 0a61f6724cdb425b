// Tables and documents in the four formats that commands print. Everything that comes from the database is escaped for where it
// goes.
#ifndef MOIETY_REGISTRY_TABLE_H_
#define MOIETY_REGISTRY_TABLE_H_

#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "registry/report.h"

namespace moiety::registry {

/// What people read, and the value behind it for JSON and CSV. NaN and infinities are the texts nan, inf, -inf in both.
struct Cell {
  std::string text;
  nlohmann::ordered_json value;
  bool right = false;  ///< numbers stand at the right edge of their column

  static Cell empty();
  static Cell of_text(const std::string& text);
  static Cell of_integer(std::int64_t value);
  /// `shown` is how it is printed in tables; by default the shortest text that reads back as the same number.
  static Cell of_number(double value, const std::string& shown = {});
};

class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }
  std::string render(Format format) const;
  nlohmann::ordered_json json() const;
  /// Leaves out columns in which no row has anything.
  void drop_empty_columns();

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<Cell>> rows_;
};

/// Lines and tables in order, for the formats people read (table, markdown); CSV prints the tables only.
class Document {
 public:
  void line(const std::string& text) { parts_.emplace_back(text); }
  void table(Table table) { parts_.emplace_back(std::move(table)); }
  std::string render(Format format) const;

 private:
  std::vector<std::variant<std::string, Table>> parts_;
};

/// A JSON document as text: ASCII only, so that no text in it steers a terminal.
std::string json_text(const nlohmann::ordered_json& document);
nlohmann::ordered_json json_number(double value);

/// Columns of one name get numbers, so that all stay apart as an object's members.
std::vector<std::string> unique_names(const std::vector<std::string>& header);

std::string csv_cell(const std::string& text, bool is_number);
std::string markdown_text(const std::string& text);

/// "0.4123 ± 0.0081 (5)": as many decimals as two digits of the deviation need.
std::string mean_text(double mean, double sd, int n);
/// `value` with the decimals that two digits of `scale` need, with a sign when asked.
std::string rounded(double value, double scale, bool sign = false);
/// "3 days ago", "14 min ago".
std::string ago(double seconds);
/// "1-5 8 11-12".
std::string ranges(std::vector<std::int64_t> numbers);

}  // namespace moiety::registry

#endif  // MOIETY_REGISTRY_TABLE_H_
