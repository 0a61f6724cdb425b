// What a worker tells the supervisor: one JSON object a line, on the descriptor that was its standard output.
#ifndef MOIETY_KERNEL_ENGINE_WORKER_PROTOCOL_H_
#define MOIETY_KERNEL_ENGINE_WORKER_PROTOCOL_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

namespace moiety::engine {

class Protocol {
 public:
  /// A negative descriptor: nobody listens.
  explicit Protocol(int descriptor) : descriptor_(descriptor) {}
  /// Whole lines, from any thread. A supervisor that is gone is not an error.
  void send(const nlohmann::ordered_json& message);
  /// At most twice a second, the last value of `done == total` always. A loss that is not finite is sent as text.
  void progress(const std::string& unit, double done, double total, double loss, const std::string& phase);

 private:
  int descriptor_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point last_{};
};

/// A thread that says every 5 s that the worker lives, and every second which component's call is in flight and for how long.
class Beat {
 public:
  explicit Beat(Protocol& protocol);
  ~Beat();
  Beat(const Beat&) = delete;
  Beat& operator=(const Beat&) = delete;

 private:
  void run();
  Protocol& protocol_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_WORKER_PROTOCOL_H_
