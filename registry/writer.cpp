// The metric writer: a lock-free queue from the training thread to one that writes.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "registry/internal.h"

namespace moiety::registry {

namespace {

constexpr auto commit_every = std::chrono::milliseconds(500);
constexpr std::uint64_t commit_rows = 500;

/// Unbounded queue of one producer and one consumer: a linked list whose first node is already consumed. The producer owns
/// `tail_`, the consumer `head_`; they meet only in a node's `next`.
class RowQueue {
 public:
  RowQueue() : head_(new Node), tail_(head_) {}
  RowQueue(const RowQueue&) = delete;
  RowQueue& operator=(const RowQueue&) = delete;
  ~RowQueue() {
    while (head_ != nullptr) {
      Node* next = head_->next.load(std::memory_order_relaxed);
      delete head_;
      head_ = next;
    }
  }

  void push(MetricRow row) {
    Node* node = new Node;
    node->row = std::move(row);
    tail_->next.store(node, std::memory_order_release);
    tail_ = node;
  }

  bool pop(MetricRow& row) {
    Node* next = head_->next.load(std::memory_order_acquire);
    if (next == nullptr) return false;
    row = std::move(next->row);
    delete head_;
    head_ = next;
    return true;
  }

 private:
  struct Node {
    MetricRow row;
    std::atomic<Node*> next{nullptr};
  };
  Node* head_;
  Node* tail_;
};

class QueuedMetricWriter final : public MetricWriter {
 public:
  QueuedMetricWriter(Database database, std::int64_t stage, std::int64_t attempt)
      : database_(std::move(database)), stage_(stage), attempt_(attempt), thread_([this] { write_loop(); }) {}

  ~QueuedMetricWriter() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  void log(const MetricRow& row) override {
    queue_.push(row);
    // Not under the mutex: a wake-up that is missed is made good by the half-second tick.
    if (given_.fetch_add(1, std::memory_order_release) + 1 - taken_.load(std::memory_order_relaxed) >= commit_rows)
      wake_.notify_one();
  }

  Status flush() override {
    const std::uint64_t until = given_.load(std::memory_order_acquire);
    std::unique_lock<std::mutex> lock(mutex_);
    const std::uint64_t ticket = ++flushes_asked_;
    wake_.notify_all();
    flushed_.wait(lock, [&] { return flushes_done_ >= ticket; });
    return committed_ >= until ? Status() : status_;
  }

 private:
  void write_loop() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait_for(lock, commit_every, [&] {
        return stop_ || flushes_asked_ > flushes_done_ ||
               given_.load(std::memory_order_acquire) - taken_.load(std::memory_order_relaxed) >= commit_rows;
      });
      const bool stopping = stop_;
      const std::uint64_t ticket = flushes_asked_;
      lock.unlock();
      const Status status = commit_queue();
      lock.lock();
      status_ = status;
      if (status) committed_ = taken_.load(std::memory_order_relaxed);
      flushes_done_ = ticket;
      flushed_.notify_all();
      if (stopping) return;
    }
  }

  /// Rows stay in `batch_` until a commit took them: after a full disk the next flush writes them.
  Status commit_queue() {
    MetricRow row;
    while (queue_.pop(row)) {
      batch_.push_back(std::move(row));
      taken_.fetch_add(1, std::memory_order_relaxed);
    }
    if (batch_.empty()) return {};
    const auto status = database_.transaction([&]() -> Status {
      if (auto written = sink_.write(database_, stage_, batch_); !written) return written;
      if (attempt_ <= 0) return {};
      return database_.execute("UPDATE attempt SET heartbeat = ? WHERE key = ?", {now_milliseconds(), attempt_});
    });
    if (status) {
      batch_.clear();
    } else {
      sink_.forget();
    }
    return status;
  }

  RowQueue queue_;
  std::atomic<std::uint64_t> given_{0}, taken_{0};

  // Of the writing thread.
  Database database_;
  MetricSink sink_;
  std::int64_t stage_, attempt_;
  std::vector<MetricRow> batch_;

  std::mutex mutex_;
  std::condition_variable wake_, flushed_;
  bool stop_ = false;
  std::uint64_t flushes_asked_ = 0, flushes_done_ = 0, committed_ = 0;
  Status status_;

  std::thread thread_;  ///< last: starts when all the rest is there
};

}  // namespace

Result<std::unique_ptr<MetricWriter>> MetricWriter::open(const std::string& registry_path, const std::string& stage_id,
                                                         std::int64_t attempt) {
  auto registry = Registry::open(registry_path, OpenMode::existing);
  if (!registry) return pass(registry);
  if (attempt > 0) {
    if (auto status = registry->attempt_process(attempt, getpid()); !status) return pass(status);
  }
  auto& database = registry->connection().database;
  const auto stage = stage_key(database, stage_id);
  if (!stage) return pass(stage);
  return std::unique_ptr<MetricWriter>(new QueuedMetricWriter(std::move(database), *stage, attempt));
}

}  // namespace moiety::registry
