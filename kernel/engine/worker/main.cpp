// moiety-worker: runs one stage of a plan in a process of its own, and tells what can be composed.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "kernel/engine/model/architecture.h"
#include "kernel/engine/plugins/crash.h"
#include "kernel/engine/plugins/describe.h"
#include "kernel/engine/plugins/elf.h"
#include "kernel/engine/stages/stage.h"
#include "kernel/engine/worker/run.h"
#include "kernel/engine/worker/version.h"
#include "moiety/build_tag.h"

namespace {

using namespace moiety::engine;

constexpr const char* usage =
    "moiety-worker: runs one stage of a plan; `moiety run` starts it.\n"
    "  moiety-worker --run JOB.json            work on a stage; JSON lines on standard output\n"
    "  moiety-worker --check JOB.json...       the dry pass: problems and cost of each, one JSON line a job\n"
    "  moiety-worker --describe                verbs, model and versions as JSON\n"
    "  moiety-worker --probe FILE...           what plugin files hold, as JSON\n"
    "  moiety-worker --version\n";

std::atomic<int> stop_signal{0};

/// SIGINT and SIGTERM are blocked in every thread and waited for by one of their own. A handler would run on the stack of a
/// thread that computes, and oneDNN 2.6's kernels keep data where the stack seems to be free: measured, a handler there corrupts
/// memory.
sigset_t stop_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  return signals;
}
void block_stop_signals(int, char**, char**) {
  const sigset_t signals = stop_signals();
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
}
// Before the first library starts: OpenBLAS makes its threads while it is loaded, and they inherit what is blocked then.
__attribute__((section(".preinit_array"), used)) void (*const block_early)(int, char**, char**) = &block_stop_signals;

void unblock_stop_signals() {
  const sigset_t signals = stop_signals();
  ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
}

void wait_for_stop_signals() {
  std::thread([] {
    const sigset_t signals = stop_signals();
    for (int number = 0;;)
      if (::sigwait(&signals, &number) == 0) stop_signal.store(number);
  }).detach();
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("model name", 0) != 0 || line.find(": ") == std::string::npos) continue;
    // Which instructions are used decides the last bits of results.
    const char* widest = __builtin_cpu_supports("avx512f") ? "AVX-512" : __builtin_cpu_supports("avx2") ? "AVX2" : "SSE2";
    return line.substr(line.find(": ") + 2) + " (" + widest + ")";
  }
  return "unknown";
}

std::string own_build_id() {
  const auto facts = read_elf("/proc/self/exe");
  return facts ? facts->build_id : "";
}

nlohmann::ordered_json describe_worker() {
  nlohmann::ordered_json json;
  json["worker"] = {{"version", version},
                    {"build_id", own_build_id()},
                    {"torch_version", MOIETY_TORCH_PACKAGE},
                    {"torch_build_id", loaded_build_id("libtorch_cpu.so")},
                    {"sdk", MOIETY_SDK_HASH},
                    {"results_revision", results_revision},
                    {"cpu", cpu_name()}};
  json["model"] = describe_all(model_parameters);
  json["verbs"] = describe_verbs();
  return json;
}

/// The libraries below read their number of threads when they are loaded, so a process with another setting starts itself again.
void require_environment(int threads, char** arguments) {
  const std::string wanted = std::to_string(threads);
  bool changed = false;
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}) {
    const char* now = std::getenv(name);
    if (now != nullptr && wanted == now) continue;
    ::setenv(name, wanted.c_str(), 1);
    changed = true;
  }
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) {
    ::setenv("OMP_WAIT_POLICY", "passive", 1);
    changed = true;
  }
  if (changed && std::getenv("MOIETY_WORKER_RESTARTED") == nullptr) {
    ::setenv("MOIETY_WORKER_RESTARTED", "1", 1);
    ::execv("/proc/self/exe", arguments);
  }
}

int run(const std::string& path, char** arguments) {
  const auto job = Job::read(path);
  if (!job) {
    std::fprintf(stderr, "moiety-worker: %s\n", job.error().message.c_str());
    return job.error().exit_code();
  }
  require_environment(job->threads, arguments);
  wait_for_stop_signals();
  const pid_t parent = ::getppid();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) stop_signal.store(SIGTERM);  // it died before it could be watched

  // Whatever a library prints goes to the log, not between the lines of the protocol.
  const int protocol_descriptor = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  install_crash_handler(protocol_descriptor);
  // A supervisor that is gone and a file that may not grow are errors of the call, not the end of the process.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);

  // Activations come and go every step: memory that is given back to the system each time costs a page fault for every 4 KiB.
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the highest that glibc takes
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  at::set_num_threads(job->threads);
  at::set_num_interop_threads(1);
  at::globalContext().setFlushDenormal(false);
  Protocol protocol(protocol_descriptor);
  return run_job(*job, protocol, stop_signal);
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  const std::string command = words.empty() ? "" : words[0];
  if (command == "--run" && words.size() == 2) return run(words[1], arguments);
  unblock_stop_signals();
  if (command == "--check" && words.size() >= 2) {
    std::string output;
    const int code = check_jobs({words.begin() + 1, words.end()}, output);
    std::fputs(output.c_str(), stdout);
    return code;
  }
  if (command == "--describe" && words.size() == 1) {
    std::printf("%s\n", describe_worker().dump().c_str());
    return 0;
  }
  if (command == "--probe" && words.size() >= 2) {
    nlohmann::json files = nlohmann::json::array();
    for (std::size_t i = 1; i < words.size(); ++i) files.push_back(probe(words[i]));
    std::printf("%s\n", nlohmann::json{{"files", files}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return 0;
  }
  if (command == "--version" && words.size() == 1) {
    std::printf("moiety-worker %s (LibTorch %s)\n", version, MOIETY_TORCH_PACKAGE);
    return 0;
  }
  std::fputs(usage, stderr);
  return command == "--help" ? 0 : 2;
}
