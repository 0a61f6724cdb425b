// Version 4 of the schema: trials of which an arm reports one ([choose]).
#include "registry/schema.h"

namespace moiety::registry {

// `trial` has the labels of choices, `labels` those of axes alone. `chosen`: 1 what is reported (all that varies along no
// choice), 0 a trial that was not chosen, NULL while nothing is chosen.
const char* schema_v4() {
  return R"sql(
ALTER TABLE run_stage ADD COLUMN trial TEXT NOT NULL DEFAULT '{}';
ALTER TABLE run_stage ADD COLUMN chosen INTEGER DEFAULT 1 CHECK(chosen IN (0, 1));

CREATE TABLE choice(
  study INTEGER NOT NULL, arm TEXT NOT NULL,
  labels TEXT NOT NULL,
  name TEXT NOT NULL,
  label TEXT,
  rule TEXT NOT NULL, value REAL, reason TEXT NOT NULL,
  PRIMARY KEY(study, arm, labels, name),
  FOREIGN KEY(study, arm) REFERENCES arm(study, name)
) STRICT, WITHOUT ROWID;
)sql";
}

}  // namespace moiety::registry
