#ifndef MOIETY_REGISTRY_RUN_READER_H_
#define MOIETY_REGISTRY_RUN_READER_H_

#include <nlohmann/json.hpp>

#include "registry/report_common.h"

namespace moiety::registry {

/// One run as a JSON object: head, stages, attempts (how each ended, with the recipe's line), differences to the baseline arm,
/// final metrics, curves of the loss, plugins, events. This is what `moiety show --json` prints.
Result<nlohmann::ordered_json> read_run(Database& database, const RunInfo& run);

}  // namespace moiety::registry

#endif  // MOIETY_REGISTRY_RUN_READER_H_
