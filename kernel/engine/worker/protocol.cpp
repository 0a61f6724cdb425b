#include "kernel/engine/worker/protocol.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>

#include "kernel/base/text.h"
#include "kernel/engine/plugins/guard.h"

namespace moiety::engine {

void Protocol::send(const nlohmann::ordered_json& message) {
  const std::string line = message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const std::lock_guard<std::mutex> lock(mutex_);
  std::size_t sent = 0;
  while (descriptor_ >= 0 && sent < line.size()) {
    const ssize_t written = ::write(descriptor_, line.data() + sent, line.size() - sent);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;
    sent += static_cast<std::size_t>(written);
  }
}

void Protocol::progress(const std::string& unit, double done, double total, double loss, const std::string& phase) {
  const auto now = std::chrono::steady_clock::now();
  if (done < total && now - last_ < std::chrono::milliseconds(500)) return;
  last_ = now;
  nlohmann::ordered_json body = {{"unit", unit}, {"done", done}, {"total", total}, {"phase", phase}};
  if (std::isfinite(loss))
    body["loss"] = loss;
  else
    body["loss"] = number(loss);
  send({{"progress", body}});
}

Beat::Beat(Protocol& protocol) : protocol_(protocol), thread_([this] { run(); }) {}

Beat::~Beat() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Beat::run() {
  // Signals are the main thread's affair.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock<std::mutex> lock(mutex_);
  for (int second = 0; !stopping_; ++second) {
    if (const auto call = in_flight())
      protocol_.send({{"beat", {{"component", call->component}, {"function", call->function}, {"seconds", call->seconds}}}});
    else if (second % 5 == 0)
      protocol_.send({{"beat", nlohmann::ordered_json::object()}});
    wake_.wait_for(lock, std::chrono::seconds(1), [this] { return stopping_; });
  }
}

}  // namespace moiety::engine
