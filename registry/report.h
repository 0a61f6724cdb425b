// What the commands that read a registry print. Each returns the whole text; nothing here opens LibTorch or a plugin.
#ifndef MOIETY_REGISTRY_REPORT_H_
#define MOIETY_REGISTRY_REPORT_H_

#include <functional>
#include <string>
#include <vector>

#include "registry/registry.h"

namespace moiety::registry {

/// Takes a part of a text; false: no more of it is wanted.
using TextSink = std::function<bool(const std::string&)>;

enum class Format { table, json, csv, markdown };

/// `moiety runs`: number, short id, study, arm, seed, state, the final value of each measured metric, age. Newest last.
Result<std::string> runs_text(Registry&, const std::string& study_filter, Format);
/// `moiety show RUN`: everything of one run (number, id or unique id prefix): stages, states, parameters that differ from the
/// baseline arm, metrics, a curve of the loss as text, builds, cost; for failures error, component, signal, stderr tail, log
/// path.
Result<std::string> show_text(Registry&, const std::string& run, Format);
/// `moiety logs RUN`: path and last lines of the log of each attempt.
Result<std::string> logs_text(Registry&, const std::string& run, int lines);
/// `moiety sql QUERY`: read-only, under an authorizer that denies ATTACH, VACUUM INTO, writes and load_extension; functions
/// stddev, median, ci95 beside SQLite's own. NULL-for-NaN metrics print as nan.
Result<std::string> sql_text(Registry&, const std::string& query, Format);
/// The same, passed on while the query runs: an answer may be larger than memory, or have no end. Ends early, without an error,
/// when the sink takes no more. After an error in the middle the sink has had the rows before it.
Status sql_rows(Registry&, const std::string& query, Format, const TextSink& sink);

struct CompareOptions {
  std::string study;                 ///< id prefix or name; "" = the newest
  std::vector<std::string> arms;     ///< empty: all
  std::vector<std::string> metrics;  ///< empty: all metrics of the measuring stages (evaluate, probe)
};
/// `moiety compare`: one row an arm and metric: mean ± sd (n), then the paired difference to the baseline with its interval, p
/// and Holm's p; diverged and failed runs counted and named; a note when pinned stages make the n conditional on one model, when
/// all values are equal ("the seed changes nothing here"), and a warning when stages of one name differ between arms in
/// build ids, threads or CPU (T38, T40, T43).
Result<std::string> compare_text(Registry&, const CompareOptions&, Format);
/// `moiety claims`: source, statement, verdict, effect with interval, n, runs behind it.
Result<std::string> claims_text(Registry&, const std::string& study, Format);

}  // namespace moiety::registry

#endif  // MOIETY_REGISTRY_REPORT_H_
