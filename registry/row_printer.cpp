#include "registry/row_printer.h"

#include <algorithm>
#include <utility>

#include "kernel/base/text.h"

namespace moiety::registry {

namespace {

constexpr std::size_t passed_at_once = 64 << 10;

std::string padded(const std::string& text, std::size_t columns, bool right) {
  const std::size_t has = width(text);
  const std::string space(columns > has ? columns - has : 0, ' ');
  return right ? space + text : text + space;
}

std::string without_trailing_space(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string plain(const nlohmann::ordered_json& value) {
  if (value.is_null()) return {};
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return number(value.get<double>());
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

RowPrinter::RowPrinter(std::vector<std::string> header, Format format, TextSink sink, Held held)
    : header_(format == Format::json ? unique_names(header) : std::move(header)),
      format_(format),
      sink_(std::move(sink)),
      most_(held),
      holding_(format == Format::table) {}

bool RowPrinter::add(std::vector<Cell> row) {
  if (holding_) {
    for (const auto& cell : row) held_bytes_ += cell.text.size();
    held_.push_back(std::move(row));
    if (held_.size() >= most_.rows || held_bytes_ >= most_.bytes) release();
  } else {
    if (!begun_) begin(&row);
    put(row);
  }
  return flush(passed_at_once);
}

bool RowPrinter::finish() {
  if (holding_) release();
  if (!begun_) begin(nullptr);
  if (format_ == Format::json) text_ += text_ == "[" && !passed_ ? "]\n" : "\n]\n";
  return flush(1);
}

void RowPrinter::give_up() {
  if (passed_) flush(1);
}

void RowPrinter::begin(const std::vector<Cell>* first) {
  begun_ = true;
  std::vector<std::string> cells;
  if (format_ == Format::json) {
    text_ += "[";
  } else if (format_ == Format::csv) {
    for (const auto& name : header_) cells.push_back(csv_cell(name, false));
    text_ += join(cells, ",") + "\n";
  } else if (format_ == Format::markdown) {
    std::string rule;
    for (std::size_t i = 0; i < header_.size(); ++i) {
      text_ += "| " + markdown_text(header_[i]) + " ";
      rule += first != nullptr && (*first)[i].right ? "|---:" : "|---";
    }
    text_ += "|\n" + rule + "|\n";
  }
}

void RowPrinter::put(const std::vector<Cell>& row) {
  std::vector<std::string> cells;
  switch (format_) {
    case Format::json:
      return put_json(row);
    case Format::table:
      return put_aligned(row);
    case Format::csv:
      for (const auto& cell : row) cells.push_back(csv_cell(plain(cell.value), !cell.value.is_string() || cell.right));
      text_ += join(cells, ",") + "\n";
      return;
    case Format::markdown:
      for (const auto& cell : row) text_ += "| " + markdown_text(cell.text) + " ";
      text_ += "|\n";
  }
}

/// As an element of the array that `json_text` prints: one blank further in.
void RowPrinter::put_json(const std::vector<Cell>& row) {
  auto object = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < row.size(); ++i) object[header_[i]] = row[i].value;
  text_ += text_ == "[" && !passed_ ? "\n " : ",\n ";
  std::string lines = json_text(object);
  lines.pop_back();
  for (const char c : lines) {
    text_ += c;
    if (c == '\n') text_ += ' ';
  }
}

void RowPrinter::put_aligned(const std::vector<Cell>& row) {
  std::vector<std::string> cells;
  for (std::size_t i = 0; i < row.size(); ++i) cells.push_back(padded(printable(row[i].text), widths_[i], row[i].right));
  text_ += without_trailing_space(join(cells, "  ")) + "\n";
}

void RowPrinter::release() {
  holding_ = false;
  begun_ = true;
  for (const auto& name : header_) widths_.push_back(width(printable(name)));
  for (const auto& row : held_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], width(printable(row[i].text)));
  }
  std::vector<std::string> cells;
  for (std::size_t i = 0; i < header_.size(); ++i) {
    const bool right = std::any_of(held_.begin(), held_.end(), [&](const auto& row) { return row[i].right; });
    cells.push_back(padded(printable(header_[i]), widths_[i], right));
  }
  text_ += without_trailing_space(join(cells, "  ")) + "\n";
  for (const auto& row : std::exchange(held_, {})) put_aligned(row);
}

bool RowPrinter::flush(std::size_t from) {
  if (text_.size() < from || !open_) return open_;
  passed_ = true;
  open_ = sink_(text_);
  text_.clear();
  return open_;
}

}  // namespace moiety::registry
