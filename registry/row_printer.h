// A table printed row by row, in the four formats: for answers that may have no end. What is printed is what Table::render gives.
#ifndef MOIETY_REGISTRY_ROW_PRINTER_H_
#define MOIETY_REGISTRY_ROW_PRINTER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "registry/report.h"
#include "registry/table.h"

namespace moiety::registry {

/// How many rows, or how many bytes of them, decide how wide the columns of an aligned table are. Later rows that are wider stand
/// out.
struct Held {
  std::size_t rows = 10'000, bytes = 16 << 20;
};

class RowPrinter {
 public:
  RowPrinter(std::vector<std::string> header, Format format, TextSink sink, Held held = {});
  /// False when the sink takes no more.
  bool add(std::vector<Cell> row);
  /// After the last row.
  bool finish();
  /// Instead of `finish`, after an error: what was begun is passed on, a text that had not left yet is dropped.
  void give_up();

 private:
  void begin(const std::vector<Cell>* first);
  void put(const std::vector<Cell>& row);
  void put_json(const std::vector<Cell>& row);
  void put_aligned(const std::vector<Cell>& row);
  void release();
  bool flush(std::size_t from);

  std::vector<std::string> header_;
  Format format_;
  TextSink sink_;
  Held most_;
  std::vector<std::vector<Cell>> held_;  ///< of an aligned table, while its widths are not decided
  std::size_t held_bytes_ = 0;
  std::vector<std::size_t> widths_;
  std::string text_;  ///< not passed on yet
  bool begun_ = false, holding_ = false, passed_ = false, open_ = true;
};

}  // namespace moiety::registry

#endif  // MOIETY_REGISTRY_ROW_PRINTER_H_
