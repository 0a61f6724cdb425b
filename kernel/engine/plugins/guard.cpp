#include "kernel/engine/plugins/guard.h"

#include <c10/util/Exception.h>
#include <time.h>

#include <array>
#include <atomic>
#include <mutex>
#include <new>
#include <set>

#include "kernel/base/text.h"

namespace moiety::engine {
namespace {

/// What one thread is doing. Written by that thread alone; `version` is odd while it writes, so that other threads read whole
/// records.
struct Slot {
  std::atomic<bool> taken{false};
  std::atomic<std::uint32_t> version{0};
  std::atomic<const char*> component{nullptr};  ///< null: no call in flight
  std::atomic<const char*> function{nullptr};
  std::atomic<std::int64_t> since{0};  ///< nanoseconds of the monotonic clock
};

// More threads than this at once inside components go unseen, not wrong.
std::array<Slot, 64> slots;

struct OwnSlot {
  Slot* slot = nullptr;
  ~OwnSlot() {
    if (slot != nullptr) slot->taken.store(false, std::memory_order_release);
  }
};
thread_local OwnSlot own;

std::int64_t now() noexcept {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
}

Slot* own_slot() noexcept {
  if (own.slot != nullptr) return own.slot;
  for (Slot& slot : slots) {
    bool expected = false;
    if (slot.taken.compare_exchange_strong(expected, true)) return own.slot = &slot;
  }
  return nullptr;
}

void write(Slot& slot, const char* component, const char* function, std::int64_t since) noexcept {
  slot.version.fetch_add(1);
  slot.component.store(component);
  slot.function.store(function);
  slot.since.store(since);
  slot.version.fetch_add(1);
}

bool read(const Slot& slot, InFlight& found) noexcept {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::uint32_t before = slot.version.load();
    if (before % 2 != 0) continue;
    const char* component = slot.component.load();
    const char* function = slot.function.load();
    const std::int64_t since = slot.since.load();
    if (slot.version.load() != before) continue;
    if (component == nullptr) return false;
    found = {component, function, static_cast<double>(now() - since) * 1e-9};
    return true;
  }
  return false;
}

std::string one_line(const char* text) {
  std::string line = text == nullptr ? "" : text;
  // A c10 error's text may go on with notes; a person needs the first line.
  if (const auto end = line.find('\n'); end != std::string::npos) line.resize(end);
  return line.empty() ? "no text given" : printable(line);
}

}  // namespace

ComponentFailure::ComponentFailure(std::string component, std::string function, std::string text)
    : component_(std::move(component)),
      function_(std::move(function)),
      text_(std::move(text)),
      line_(component_ + ": " + function_ + ": " + text_) {}

std::optional<InFlight> in_flight() {
  std::optional<InFlight> longest;
  for (const Slot& slot : slots) {
    InFlight found;
    if (slot.taken.load(std::memory_order_acquire) && read(slot, found) && (!longest || found.seconds > longest->seconds))
      longest = found;
  }
  return longest;
}

bool in_flight_for_signal(InFlight& found) noexcept {
  if (own.slot != nullptr && own.slot->component.load() != nullptr) {
    found = {own.slot->component.load(), own.slot->function.load(), 0};
    return true;
  }
  for (const Slot& slot : slots) {
    if (slot.taken.load() && read(slot, found)) return true;
  }
  return false;
}

const char* kept_text(const std::string& text) {
  // Never destroyed: what it holds may be read while the process ends.
  static auto* const mutex = new std::mutex;
  static auto* const texts = new std::set<std::string>;
  const std::lock_guard<std::mutex> lock(*mutex);
  return texts->insert(text).first->c_str();
}

ComponentScope::ComponentScope(const char* component, const char* function) noexcept
    : outer_component_(nullptr), outer_function_(nullptr), outer_since_(0) {
  Slot* const slot = own_slot();
  if (slot == nullptr) return;
  outer_component_ = slot->component.load();
  outer_function_ = slot->function.load();
  outer_since_ = slot->since.load();
  write(*slot, component, function, now());
}

ComponentScope::~ComponentScope() {
  if (own.slot != nullptr) write(*own.slot, outer_component_, outer_function_, outer_since_);
}

void throw_as_failure(const char* component, const char* function) {
  try {
    throw;
  } catch (const ComponentFailure&) {
    throw;
  } catch (const c10::Error& e) {
    throw ComponentFailure(component, function, one_line(e.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    throw ComponentFailure(component, function, "out of memory");
  } catch (const std::exception& e) {
    throw ComponentFailure(component, function, one_line(e.what()));
  } catch (const char* text) {
    throw ComponentFailure(component, function, one_line(text));
  } catch (...) {
    throw ComponentFailure(component, function, "threw something that is not a std::exception");
  }
}

}  // namespace moiety::engine
