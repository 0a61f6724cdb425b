#include "kernel/data/packages/interruption.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "kernel/base/files.h"

namespace moiety::data {
namespace {

struct Unfinished {
  std::mutex mutex;
  std::set<std::string> folders;
  std::set<pid_t> children;
};

/// Never destroyed: the watcher thread may use it while the process ends.
Unfinished& unfinished() {
  static auto* const all = new Unfinished;
  return *all;
}

[[noreturn]] void end_by(int signal) {
  auto& all = unfinished();
  // The lock is kept: no new child or folder can appear any more.
  all.mutex.lock();
  for (const pid_t child : all.children) ::kill(child, SIGTERM);
  std::error_code ignored;
  // Twice: the interrupted thread may still be writing into a folder that is being removed.
  for (int i = 0; i < 2; ++i) {
    for (const auto& folder : all.folders) std::filesystem::remove_all(folder, ignored);
  }
  fmt::print(stderr, "\ninterrupted; nothing half-written is left, the same command starts over\n");
  ::_exit(128 + signal);
}

}  // namespace

void watch_for_interruption() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    int signal = 0;
    while (sigwait(&signals, &signal) != 0) {
    }
    end_by(signal);
  }).detach();
}

GuardedFolder::GuardedFolder(std::string path) : path_(std::move(path)) {}

GuardedFolder::GuardedFolder(GuardedFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

Result<GuardedFolder> GuardedFolder::make(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
  {
    auto& all = unfinished();
    const std::lock_guard lock(all.mutex);
    all.folders.insert(path);
  }
  GuardedFolder folder(path);
  if (auto status = make_folders(path); !status) return pass(status);
  return folder;
}

GuardedFolder::~GuardedFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  auto& all = unfinished();
  const std::lock_guard lock(all.mutex);
  all.folders.erase(path_);
}

GuardedChild::GuardedChild(pid_t child) : child_(child) {
  auto& all = unfinished();
  const std::lock_guard lock(all.mutex);
  all.children.insert(child_);
}

GuardedChild::~GuardedChild() {
  auto& all = unfinished();
  const std::lock_guard lock(all.mutex);
  all.children.erase(child_);
}

}  // namespace moiety::data
