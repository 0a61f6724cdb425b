#include "kernel/host/run/worker.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <utility>

#include "kernel/base/files.h"
#include "kernel/base/text.h"

namespace moiety::host {
namespace {

constexpr std::int64_t kTail = 4096;

std::string mebibytes(std::int64_t bytes) { return fmt::format("{:.0f} MiB", static_cast<double>(bytes) / (1 << 20)); }

}  // namespace

std::int64_t resident_memory(pid_t pid) {
  const auto text = read_file("/proc/" + std::to_string(pid) + "/statm");
  long long total = 0, resident = 0;
  if (!text || std::sscanf(text->c_str(), "%lld %lld", &total, &resident) != 2) return 0;
  return resident * ::sysconf(_SC_PAGESIZE);
}

Worker::Worker(Child child, Descriptor lock, std::string log, int threads)
    : child_(std::move(child)), lock_(std::move(lock)), log_(std::move(log)), threads_(threads), started_(now_seconds()) {}

void Worker::take(const Message& message) {
  if (const auto* progress = std::get_if<Progress>(&message))
    progress_ = *progress;
  else if (const auto* crash = std::get_if<Crash>(&message))
    crash_ = *crash;
  else if (const auto* end = std::get_if<End>(&message))
    end_ = *end;
  else if (const auto* beat = std::get_if<Beat>(&message)) {
    beat_ = *beat;
    beat_at_ = now_seconds();
  }
}

bool Worker::read() {
  bool progressed = false;
  while (open_) {
    pollfd ready{child_.stdout_descriptor(), POLLIN, 0};
    if (::poll(&ready, 1, 0) <= 0) break;
    std::array<char, 1 << 16> buffer;
    const ssize_t got = ::read(ready.fd, buffer.data(), buffer.size());
    if (got <= 0) {
      open_ = false;
      break;
    }
    for (const auto& line : lines_.feed({buffer.data(), static_cast<std::size_t>(got)})) {
      if (const auto message = parse_message(line)) {
        progressed = progressed || std::holds_alternative<Progress>(*message);
        take(*message);
      }
    }
  }
  return progressed;
}

void Worker::stop(int signal) {
  stopped_ = true;
  child_.send(signal);
}

void Worker::enforce(const Limits& limits) {
  if (!killed_.empty()) return;
  const bool in_call = beat_ && !beat_->component.empty();
  const std::string who =
      in_call ? beat_->component + (beat_->function.empty() ? "" : ", function " + beat_->function) : "the worker";
  // A beat thread that is stopped together with the call tells no more: the call's time goes on from the last beat.
  if (in_call && beat_->seconds + (now_seconds() - beat_at_) > limits.call_seconds) {
    killed_ = who + ", took longer than limits.call (" + duration(limits.call_seconds) + ") and was killed";
  } else if (const auto memory = resident_memory(child_.pid()); memory > limits.memory) {
    killed_ = "memory reached " + mebibytes(memory) + ", more than limits.memory (" + mebibytes(limits.memory) + "); killed" +
              (in_call ? " in " + who : "");
  }
  if (!killed_.empty()) child_.send(SIGKILL);
}

WorkerFacts Worker::facts() {
  read();
  if (const auto message = parse_message(lines_.rest())) take(*message);
  WorkerFacts facts;
  facts.exit = child_.wait();
  facts.end = end_;
  facts.crash = crash_;
  facts.beat = beat_;
  facts.killed = killed_;
  facts.stopped = stopped_;
  if (ended_at_ == 0) ended_at_ = now_seconds();
  facts.wall_seconds = ended_at_ - started_;
  facts.last_words = last_words(stderr_tail());
  return facts;
}

std::string Worker::stderr_tail() const {
  std::ifstream file(log_, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const auto size = static_cast<std::int64_t>(file.tellg());
  const auto begin = std::max<std::int64_t>(0, size - kTail);
  std::string tail(static_cast<std::size_t>(size - begin), '\0');
  file.seekg(begin);
  file.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  tail.resize(static_cast<std::size_t>(file.gcount()));
  return begin == 0 ? tail : tail.substr(std::min(tail.find('\n') + 1, tail.size()));
}

}  // namespace moiety::host
