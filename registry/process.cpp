#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>

#include "kernel/base/text.h"
#include "registry/internal.h"

namespace moiety::registry {

namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

struct ProcessStat {
  bool readable = false;
  char state = '?';
  std::string start;  ///< clock ticks since boot
};

ProcessStat read_stat(std::int64_t pid) {
  ProcessStat out;
  const std::string line = first_line("/proc/" + std::to_string(pid) + "/stat");
  // The command's name is in brackets and may hold spaces and brackets itself: fields are counted from the last one.
  const auto close = line.rfind(')');
  if (close == std::string::npos || close + 2 >= line.size()) return out;
  const auto fields = split(std::string_view(line).substr(close + 2), ' ');
  if (fields.size() < 20) return out;
  out.readable = true;
  out.state = fields[0].empty() ? '?' : fields[0][0];
  out.start = fields[19];  // field 22 of proc(5)
  return out;
}

}  // namespace

std::int64_t now_milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

ProcessIdentity identify_process(std::int64_t pid) {
  ProcessIdentity out;
  out.host = host_name();
  out.boot_id = first_line("/proc/sys/kernel/random/boot_id");
  struct stat space {};
  if (stat("/proc/self/ns/pid", &space) == 0) out.pid_space = std::to_string(space.st_ino);
  out.pid = pid;
  out.start = read_stat(pid).start;
  return out;
}

bool may_be_alive(const ProcessIdentity& process) {
  const auto here = identify_process(process.pid);
  if (process.host != here.host) return true;
  if (process.boot_id != here.boot_id) return false;
  // A container numbers its processes by itself: another container's 17 is not ours.
  if (process.pid_space != here.pid_space || process.pid <= 0) return true;
  if (kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == ESRCH) return false;
  const auto stat = read_stat(process.pid);
  if (!stat.readable) return true;
  return stat.state != 'Z' && stat.state != 'X' && (process.start.empty() || stat.start == process.start);
}

}  // namespace moiety::registry
