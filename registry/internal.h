// What the sources of this folder share behind registry.h.
#ifndef MOIETY_REGISTRY_INTERNAL_H_
#define MOIETY_REGISTRY_INTERNAL_H_

#include <map>
#include <string>
#include <vector>

#include "registry/connection.h"
#include "registry/registry.h"
#include "registry/schema.h"

namespace moiety::registry {

/// Writes metric rows and keeps their summaries, inside a transaction of the caller. Remembers the keys of names and label sets.
class MetricSink {
 public:
  Status write(Database& database, std::int64_t stage, const std::vector<MetricRow>& rows);
  /// After a rollback: keys given inside it are gone.
  void forget();

 private:
  Result<std::int64_t> name_key(Database& database, const std::string& name);
  Result<std::int64_t> label_key(Database& database, const Labels& labels);

  std::map<std::string, std::int64_t> names_;
  std::map<Labels, std::int64_t> labels_;
};

struct Registry::Connection {
  Database database;
  std::vector<std::string> notices;
  MetricSink sink;
};

/// Opens and migrates with a given list of schema steps; tests use lists of their own.
Result<Database> open_database(const std::string& path, OpenMode mode, const std::vector<Migration>& steps,
                               std::vector<std::string>& notices);

std::int64_t now_milliseconds();
std::string labels_text(const Labels& labels);
Labels labels_of(const std::string& text);

/// Names a process for as long as this host runs: a process id alone is used again.
struct ProcessIdentity {
  std::string host, boot_id, pid_space;
  std::int64_t pid = 0;
  std::string start;
};
ProcessIdentity identify_process(std::int64_t pid);
/// False when the process is known to be gone (or only a zombie); true when it lives or cannot be judged from here.
bool may_be_alive(const ProcessIdentity& process);
std::string host_name();

/// Key of a stage, an error when it is unknown.
Result<std::int64_t> stage_key(Database& database, const std::string& stage_id);
/// The same for a study; "" is no study and gives nothing.
Result<std::optional<std::int64_t>> study_key(Database& database, const std::string& study_id);
/// Recomputes the hash of all that a run does apart from its seed.
Status refresh_run_config(Database& database, std::int64_t run);

}  // namespace moiety::registry

#endif  // MOIETY_REGISTRY_INTERNAL_H_
