#include "kernel/host/run/protocol.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "kernel/host/json_fields.h"

namespace moiety::host {
namespace {

using nlohmann::json;
constexpr std::size_t kLongestLine = 1U << 20U;

/// A worker says a loss with all its progress; one that measures none says 0.
std::optional<double> loss_at(const json& object) {
  const auto loss = real_at(object, "loss");
  return loss && *loss == 0 ? std::nullopt : loss;
}

Progress to_progress(const json& object) {
  return {text_at(object, "unit"), text_at(object, "phase"), real_at(object, "done").value_or(0),
          real_at(object, "total").value_or(0), loss_at(object)};
}

End to_end(const json& object) {
  End end;
  end.state = text_at(object, "state");
  end.error = text_at(object, "error");
  end.component = text_at(object, "component");
  end.function = text_at(object, "function");
  end.tokens = whole_at(object, "tokens");
  end.peak_memory = whole_at(object, "peak_memory");
  end.flops = real_at(object, "flops").value_or(0);
  end.wall_seconds = real_at(object, "wall_seconds").value_or(0);
  end.cpu_seconds = real_at(object, "cpu_seconds").value_or(0);
  return end;
}

}  // namespace

std::optional<Message> parse_message(std::string_view line) {
  if (line.empty() || line.front() != '{') return std::nullopt;
  const json parsed = json::parse(line, nullptr, false);
  if (!parsed.is_object() || parsed.size() != 1) return std::nullopt;
  const auto& kind = parsed.begin().key();
  const auto& body = parsed.begin().value();
  if (!body.is_object()) return std::nullopt;
  if (kind == "progress") return to_progress(body);
  if (kind == "beat") return Beat{text_at(body, "component"), text_at(body, "function"), real_at(body, "seconds").value_or(0)};
  if (kind == "crash")
    return Crash{static_cast<int>(whole_at(body, "signal")), text_at(body, "component"), text_at(body, "function")};
  if (kind == "end") return to_end(body);
  return std::nullopt;
}

std::vector<std::string> LineBuffer::feed(std::string_view bytes) {
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    const auto newline = bytes.find('\n');
    const bool whole_line = newline != std::string_view::npos;
    if (!dropping_) pending_.append(bytes.substr(0, newline));
    if (pending_.size() > kLongestLine) {
      dropping_ = true;
      pending_.clear();
    }
    if (!whole_line) break;
    if (!dropping_) lines.push_back(std::exchange(pending_, {}));
    dropping_ = false;
    bytes.remove_prefix(newline + 1);
  }
  return lines;
}

std::string LineBuffer::rest() { return std::exchange(pending_, {}); }

}  // namespace moiety::host
