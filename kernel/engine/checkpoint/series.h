// Metric rows of a stage, twice: in the registry, where people ask, and in series.jsonl, which travels with the artifact.
#ifndef MOIETY_KERNEL_ENGINE_CHECKPOINT_SERIES_H_
#define MOIETY_KERNEL_ENGINE_CHECKPOINT_SERIES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "kernel/base/result.h"
#include "registry/registry.h"

namespace moiety::engine {

/// One line of series.jsonl, without the newline.
std::string series_line(const registry::MetricRow& row);
Result<registry::MetricRow> parse_series_line(const std::string& line);

class Series {
 public:
  /// Cuts the file at `keep` bytes and sends the rows before that to `writer` again. A file shorter than `keep` is an error.
  static Result<std::unique_ptr<Series>> open(const std::string& path, std::int64_t keep,
                                              std::unique_ptr<registry::MetricWriter> writer);
  ~Series();
  Series(const Series&) = delete;
  Series& operator=(const Series&) = delete;

  void log(const registry::MetricRow& row);
  void log(const std::string& name, std::int64_t step, double value, registry::Labels labels = {}) {
    log({name, std::move(labels), step, value});
  }
  /// Returns when all rows so far are on the disk and committed in the registry.
  Status flush();
  std::int64_t bytes() const { return bytes_; }  ///< of the file once flushed

 private:
  Series() = default;
  int file_ = -1;
  std::int64_t bytes_ = 0;
  std::string path_, waiting_;
  std::unique_ptr<registry::MetricWriter> writer_;
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_CHECKPOINT_SERIES_H_
