#include "kernel/host/run/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>
#include <thread>

#include "kernel/base/text.h"
#include "kernel/host/run/interrupts.h"

extern char** environ;

namespace moiety::host {
namespace {

constexpr std::size_t kMostOutput = 16U << 20U;

tl::unexpected<Error> system_failure(const std::string& what, int error) {
  return fail(ErrorKind::environment, what + ": " + std::generic_category().message(error));
}

struct Pipe {
  Descriptor read, write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_failure("cannot make a pipe", errno);
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

/// Everything that the child needs between fork and exec, made before the fork: there it may only call what is async-signal-safe.
struct Prepared {
  std::vector<char*> words, environment;
  std::vector<std::string> environment_text;
  std::string program;
};

std::string look_up(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  std::string folders = path != nullptr ? path : "/usr/bin:/bin";
  for (std::size_t begin = 0; begin <= folders.size();) {
    const auto end = std::min(folders.find(':', begin), folders.size());
    const std::string candidate = folders.substr(begin, end - begin) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  return name;
}

Prepared prepare(const Command& command) {
  Prepared prepared;
  prepared.program = look_up(command.words.at(0));
  for (const auto& word : command.words) prepared.words.push_back(const_cast<char*>(word.c_str()));
  prepared.words.push_back(nullptr);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto name = text.substr(0, text.find('='));
    bool replaced = false;
    for (const auto& [key, value] : command.environment) replaced = replaced || name == key;
    if (!replaced) prepared.environment_text.emplace_back(text);
  }
  for (const auto& [key, value] : command.environment) prepared.environment_text.push_back(key + "=" + value);
  for (auto& text : prepared.environment_text) prepared.environment.push_back(text.data());
  prepared.environment.push_back(nullptr);
  return prepared;
}

/// Never returns. `parent` guards against the host having died before PR_SET_PDEATHSIG was set.
[[noreturn]] void become(const Prepared& prepared, const Command& command, pid_t parent, int input, int output, int errors) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGPIPE}) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  if (errors >= 0) ::dup2(errors, STDERR_FILENO);
  if (command.inherited >= 0) ::fcntl(command.inherited, F_SETFD, 0);
  if (command.folder.empty() || ::chdir(command.folder.c_str()) == 0)
    ::execve(prepared.program.c_str(), prepared.words.data(), prepared.environment.data());
  const char* why = std::strerror(errno);
  for (const char* part : {"cannot start ", prepared.program.c_str(), ": ", why, "\n"}) {
    if (::write(STDERR_FILENO, part, std::strlen(part)) < 0) break;
  }
  ::_exit(127);
}

Exit to_exit(int status, const rusage& usage) {
  Exit exit;
  if (WIFSIGNALED(status))
    exit.signal = WTERMSIG(status);
  else
    exit.code = WEXITSTATUS(status);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  exit.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  exit.peak_memory = static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
  return exit;
}

/// Appends what can be read now. False at the end of the stream.
bool drain(int descriptor, std::string* into) {
  std::array<char, 1 << 16> buffer;
  const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  if (into->size() < kMostOutput) into->append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0;
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    number_ = std::exchange(other.number_, -1);
  }
  return *this;
}

void Descriptor::reset() {
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

std::string Exit::text() const {
  if (signal != 0) return "killed by signal " + std::to_string(signal) + " (" + signal_name(signal) + ")";
  return "exit code " + std::to_string(code);
}

Result<Child> Child::start(const Command& command) {
  auto input = make_pipe();
  if (!input) return pass(input);
  auto output = make_pipe();
  if (!output) return pass(output);
  Pipe errors;
  Descriptor log;
  if (command.stderr_to_pipe) {
    auto pipe = make_pipe();
    if (!pipe) return pass(pipe);
    errors = std::move(*pipe);
  } else if (!command.stderr_file.empty()) {
    log = Descriptor(::open(command.stderr_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!log.valid()) return system_failure("cannot write the log " + command.stderr_file, errno);
  }
  const Prepared prepared = prepare(command);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return system_failure("cannot start a process", errno);
  if (pid == 0) {
    become(prepared, command, parent, input->read.get(), output->write.get(), log.valid() ? log.get() : errors.write.get());
  }
  ::setpgid(pid, pid);  // both sides do it: whoever comes first
  Child child;
  child.pid_ = pid;
  child.stdout_ = std::move(output->read);
  child.stderr_ = std::move(errors.read);
  if (!command.input.empty()) {
    // The pipe holds 64 KiB, so this cannot block; a child that is gone already gives EPIPE, which its exit code explains.
    const auto size = std::min<std::size_t>(command.input.size(), 64U << 10U);
    struct sigaction ignore {};
    struct sigaction before {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignore, &before);
    [[maybe_unused]] const auto written = ::write(input->write.get(), command.input.data(), size);
    ::sigaction(SIGPIPE, &before, nullptr);
  }
  return child;
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      stdout_(std::move(other.stdout_)),
      stderr_(std::move(other.stderr_)),
      exit_(other.exit_) {}

Child::~Child() {
  if (pid_ < 0 || exit_) return;
  send(SIGKILL);
  wait();
}

void Child::send(int signal) const {
  if (pid_ > 0 && !exit_) ::kill(-pid_, signal);
}

std::optional<Exit> Child::poll() {
  if (exit_ || pid_ < 0) return exit_;
  int status = 0;
  rusage usage{};
  const pid_t got = ::wait4(pid_, &status, WNOHANG, &usage);
  if (got == pid_) exit_ = to_exit(status, usage);
  return exit_;
}

Exit Child::wait() {
  if (exit_) return *exit_;
  int status = 0;
  rusage usage{};
  while (::wait4(pid_, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  exit_ = to_exit(status, usage);
  return *exit_;
}

Result<Captured> capture(const Command& command, double limit_seconds) {
  auto child = Child::start(command);
  if (!child) return pass(child);
  Captured captured;
  const double begin = now_seconds();
  double kill_at = limit_seconds > 0 ? begin + limit_seconds : 0;
  bool killed = false, output_open = true, errors_open = child->stderr_descriptor() >= 0;
  for (;;) {
    std::array<pollfd, 3> waiting{};
    waiting[0] = {output_open ? child->stdout_descriptor() : -1, POLLIN, 0};
    waiting[1] = {errors_open ? child->stderr_descriptor() : -1, POLLIN, 0};
    waiting[2] = {Interrupts::descriptor(), POLLIN, 0};
    ::poll(waiting.data(), waiting.size(), 50);
    if (waiting[2].revents != 0) Interrupts::drain();
    if (output_open && waiting[0].revents != 0) output_open = drain(child->stdout_descriptor(), &captured.output);
    if (errors_open && waiting[1].revents != 0) errors_open = drain(child->stderr_descriptor(), &captured.errors);
    if (captured.interrupted == 0 && Interrupts::pending() != 0) {
      captured.interrupted = Interrupts::pending();
      child->send(captured.interrupted);
      kill_at = now_seconds() + 10;
    }
    if (!killed && kill_at > 0 && now_seconds() >= kill_at) {
      killed = true;
      captured.timed_out = captured.interrupted == 0;
      child->send(SIGKILL);
    }
    // Some grandchild may hold the pipes open: the end of the child itself is what counts.
    if (const auto exit = child->poll()) {
      captured.exit = *exit;
      pollfd rest{child->stdout_descriptor(), POLLIN, 0};
      while (output_open && ::poll(&rest, 1, 0) > 0) output_open = drain(rest.fd, &captured.output);
      rest.fd = child->stderr_descriptor();
      while (errors_open && ::poll(&rest, 1, 0) > 0) errors_open = drain(rest.fd, &captured.errors);
      return captured;
    }
    // Both streams ended but the process is not yet gone: do not spin.
    if (!output_open && !errors_open) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

std::string last_words(const std::string& text, std::size_t most) {
  std::string last;
  for (auto& line : split(text, '\n')) {
    if (!line.empty()) last = std::move(line);
  }
  return last.substr(0, most);
}

double now_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace moiety::host
