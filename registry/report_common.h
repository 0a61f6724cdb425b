// Look-ups that the reports share.
#ifndef MOIETY_REGISTRY_REPORT_COMMON_H_
#define MOIETY_REGISTRY_REPORT_COMMON_H_

#include <optional>
#include <string>
#include <vector>

#include "registry/internal.h"

namespace moiety::registry {

struct StudyInfo {
  std::int64_t key = 0;
  std::string id, name, baseline, state, recipe_path, raw_text;
  double confidence = 0.95;
  int seeds = 0;
};
/// By name (the newest of that name) or unique id prefix; "" is the newest of all. Unknown: near names.
Result<StudyInfo> find_study(Database& database, const std::string& filter);

struct RunInfo {
  std::int64_t number = 0, study = 0, created = 0;
  std::string id, arm, state, config, unit;
  int seed = 0;
};
/// By number, id, or a prefix or suffix of the id that only one run has.
Result<RunInfo> find_run(Database& database, const std::string& name);

/// SQL list of the verbs whose metrics are results: ('evaluate', 'probe').
extern const char* const measuring_verbs;

/// SQL: the labels of a metric (`label`) behind those of its stage in a run (`run_stage`), as in v_final.
extern const char* const joined_labels;

/// The mean over domains of a metric's values: of the logarithm, exponentiated, for a perplexity (the mean of losses).
double macro_mean(const std::string& metric, const std::vector<double>& values);
/// "accuracy", "perplexity [set=test]".
std::string metric_title(const std::string& metric, const Labels& labels);

/// "", or "stale (last seen 14 min ago on HOST)" for a stage's newest running attempt on another host that stopped reporting:
/// nobody here can tell whether it lives.
Result<std::string> stale_note(Database& database, std::int64_t stage);

/// The last `lines` lines of a file; nothing when it cannot be read.
std::optional<std::vector<std::string>> last_lines(const std::string& path, int lines);

}  // namespace moiety::registry

#endif  // MOIETY_REGISTRY_REPORT_COMMON_H_
