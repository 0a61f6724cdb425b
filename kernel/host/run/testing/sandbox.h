// For tests that run the real `moiety` against the fake worker and the fake moiety-data, each in a folder of its own.
#ifndef MOIETY_KERNEL_HOST_RUN_TESTING_SANDBOX_H_
#define MOIETY_KERNEL_HOST_RUN_TESTING_SANDBOX_H_

#include <map>
#include <string>
#include <vector>

#include "kernel/base/files.h"
#include "kernel/host/run/process.h"

namespace moiety::host::testing {

struct Ran {
  int code = 0;  ///< 128 + signal when a signal ended it
  std::string output, errors;
  std::string all() const { return output + errors; }
};

class Sandbox {
 public:
  Sandbox();

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string store() const { return path("store"); }
  std::string registry() const { return path("moiety.db"); }
  void write(const std::string& name, const std::string& text) const;
  /// Environment of the programs started from now on.
  void set(const std::string& name, const std::string& value) { environment_[name] = value; }

  Command command(std::vector<std::string> words) const;
  /// `moiety` with these words; killed after 60 s.
  Ran run(std::vector<std::string> words) const;
  /// `moiety run recipe.toml --jobs 2` and more words.
  Ran run_recipe(std::vector<std::string> more = {}) const;

  /// Lines of the log of calls that begin with `start`.
  int calls(const std::string& start) const;
  void forget_calls() const;
  /// First column of the first row; "" when there is none.
  std::string sql(const std::string& query) const;
  /// Waits (20 s) until the calls have such a line.
  bool wait_for_call(const std::string& start, int times = 1) const;

 private:
  TemporaryFolder folder_;
  std::map<std::string, std::string> environment_;
};

/// Two arms, three seeds: base (pinned) → tuned → score. `tuned_keys` are more lines of stage.tuned.
std::string two_arm_recipe(const std::string& tuned_keys = "", const std::string& more = "");

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace moiety::host::testing

#endif  // MOIETY_KERNEL_HOST_RUN_TESTING_SANDBOX_H_
