#include "kernel/engine/checkpoint/series.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "kernel/base/files.h"
#include "kernel/base/text.h"

namespace moiety::engine {
namespace {

Status system_failure(const std::string& path, int error) {
  const bool full = error == ENOSPC || error == EFBIG || error == EDQUOT;
  return fail(ErrorKind::environment,
              "cannot write " + path + ": " + (full ? "the disk is full" : std::generic_category().message(error)),
              full ? "free some space, then run the same command again" : "");
}

}  // namespace

std::string series_line(const registry::MetricRow& row) {
  nlohmann::ordered_json json = {{"name", row.name}, {"labels", nlohmann::json::object()}, {"step", row.step}};
  for (const auto& [axis, label] : row.labels) json["labels"][axis] = label;
  if (std::isfinite(row.value))
    json["value"] = row.value;
  else
    json["value"] = number(row.value);
  return json.dump();
}

Result<registry::MetricRow> parse_series_line(const std::string& line) {
  registry::MetricRow row;
  try {
    const auto json = nlohmann::json::parse(line);
    row.name = json.at("name").get<std::string>();
    row.labels = json.at("labels").get<registry::Labels>();
    row.step = json.at("step").get<std::int64_t>();
    const auto& value = json.at("value");
    if (value.is_number())
      row.value = value.get<double>();
    else if (value == "nan")
      row.value = std::numeric_limits<double>::quiet_NaN();
    else if (value == "inf")
      row.value = std::numeric_limits<double>::infinity();
    else if (value == "-inf")
      row.value = -std::numeric_limits<double>::infinity();
    else
      return fail(ErrorKind::failed, "a row of the series has no value");
  } catch (const nlohmann::json::exception&) {
    return fail(ErrorKind::failed, "a row of the series is damaged");
  }
  return row;
}

Result<std::unique_ptr<Series>> Series::open(const std::string& path, std::int64_t keep,
                                             std::unique_ptr<registry::MetricWriter> writer) {
  std::unique_ptr<Series> series(new Series);
  series->path_ = path;
  series->writer_ = std::move(writer);
  series->file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (series->file_ < 0) return pass(system_failure(path, errno));
  if (keep > 0) {
    const auto content = read_file(path);
    if (!content) return pass(content);
    if (static_cast<std::int64_t>(content->size()) < keep)
      return fail(ErrorKind::failed, path + " is shorter than the checkpoint says");
    const std::string kept = content->substr(0, static_cast<std::size_t>(keep));
    for (const auto& line : split(kept, '\n')) {
      if (line.empty()) continue;
      const auto row = parse_series_line(line);
      if (!row) return pass(row);
      series->writer_->log(*row);
    }
  }
  if (::ftruncate(series->file_, keep) != 0 || ::lseek(series->file_, 0, SEEK_END) < 0) return pass(system_failure(path, errno));
  series->bytes_ = keep;
  return series;
}

Series::~Series() {
  if (file_ >= 0) ::close(file_);
}

void Series::log(const registry::MetricRow& row) {
  waiting_ += series_line(row) + "\n";
  writer_->log(row);
}

Status Series::flush() {
  while (!waiting_.empty()) {
    const ssize_t written = ::write(file_, waiting_.data(), waiting_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_failure(path_, errno);
    waiting_.erase(0, static_cast<std::size_t>(written));
    bytes_ += written;
  }
  if (::fsync(file_) != 0) return system_failure(path_, errno);
  return writer_->flush();
}

}  // namespace moiety::engine
