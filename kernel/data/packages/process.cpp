#include "kernel/data/packages/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "kernel/data/packages/interruption.h"

namespace moiety::data {
namespace {

constexpr std::size_t kErrorLimit = 64 << 10;

class Pipe {
 public:
  Pipe() { open_ = ::pipe2(ends_.data(), O_CLOEXEC) == 0; }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  bool open() const { return open_; }
  int reading() const { return ends_[0]; }
  int writing() const { return ends_[1]; }
  void close_end(std::size_t end) {
    if (ends_[end] >= 0) ::close(ends_[end]);
    ends_[end] = -1;
  }

 private:
  std::array<int, 2> ends_ = {-1, -1};
  bool open_ = false;
};

class SpawnSettings {
 public:
  SpawnSettings() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    // This program blocks the signals that its own watcher thread waits for; a child must not inherit that.
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

std::vector<std::string> environment_of_child() {
  std::vector<std::string> variables = {"LC_ALL=C"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.substr(0, 3) != "LC_" && text.substr(0, 4) != "LANG") variables.emplace_back(text);
  }
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (auto& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Reads both pipes until both are closed.
Status drain(Pipe& output, Pipe& errors, const std::function<Status(std::string_view)>& sink, std::string& error_text) {
  std::vector<char> buffer(1 << 17);
  std::array<pollfd, 2> waits = {{{output.reading(), POLLIN, 0}, {errors.reading(), POLLIN, 0}}};
  int open = 2;
  while (open > 0) {
    if (::poll(waits.data(), waits.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return fail(ErrorKind::environment, "cannot wait for a program: " + std::generic_category().message(errno));
    }
    for (auto& wait : waits) {
      if (wait.fd < 0 || wait.revents == 0) continue;
      const ssize_t got = ::read(wait.fd, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        wait.fd = -1;
        --open;
        continue;
      }
      const std::string_view piece(buffer.data(), static_cast<std::size_t>(got));
      if (&wait == &waits[1]) {
        error_text += piece.substr(0, kErrorLimit - error_text.size());
      } else if (auto status = sink(piece); !status) {
        return status;
      }
    }
  }
  return {};
}

}  // namespace

Result<Outcome> run_program(const std::vector<std::string>& arguments, const std::function<Status(std::string_view)>& sink,
                            const std::string& folder) {
  Pipe output;
  Pipe errors;
  if (!output.open() || !errors.open()) return fail(ErrorKind::environment, "cannot make a pipe: too many open files");
  SpawnSettings settings;
  posix_spawn_file_actions_addopen(&settings.actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&settings.actions, output.writing(), 1);
  posix_spawn_file_actions_adddup2(&settings.actions, errors.writing(), 2);
  if (!folder.empty()) posix_spawn_file_actions_addchdir_np(&settings.actions, folder.c_str());
  auto texts = arguments;
  auto variables = environment_of_child();
  pid_t child = -1;
  const int code = ::posix_spawnp(&child, texts[0].c_str(), &settings.actions, &settings.attributes, pointers(texts).data(),
                                  pointers(variables).data());
  if (code != 0) {
    return fail(ErrorKind::environment, fmt::format("cannot start {}: {}", arguments[0], std::generic_category().message(code)),
                fmt::format("is {} installed? It belongs to every Debian system", arguments[0]));
  }
  const GuardedChild guard(child);
  output.close_end(1);
  errors.close_end(1);
  Outcome outcome;
  const auto drained = drain(output, errors, sink, outcome.errors);
  if (!drained) ::kill(child, SIGTERM);
  outcome.exit_code = wait_for(child);
  if (!drained) return pass(drained);
  return outcome;
}

}  // namespace moiety::data
