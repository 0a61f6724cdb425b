// Version 3 of the schema: claims that are explored, not judged; verdicts after Holm over all claims of a study.
#include "registry/schema.h"

namespace moiety::registry {

// A CHECK cannot be altered, so the table is made anew, and with it verdict_run, which refers to it.
const char* schema_v3() {
  return R"sql(
CREATE TABLE verdict_v3(
  key INTEGER PRIMARY KEY,
  study INTEGER NOT NULL, claim TEXT NOT NULL, position INTEGER NOT NULL,
  statement TEXT NOT NULL,
  verdict TEXT NOT NULL CHECK(verdict IN ('supported', 'refuted', 'undecided', 'explored')),
  reason TEXT NOT NULL,
  effect REAL, low REAL, high REAL, n INTEGER NOT NULL, unit TEXT NOT NULL, decided INTEGER NOT NULL,
  adjusted TEXT NOT NULL DEFAULT '' CHECK(adjusted IN ('', 'supported', 'refuted', 'undecided')),
  FOREIGN KEY(study, claim) REFERENCES claim(study, id)
) STRICT;
INSERT INTO verdict_v3(key, study, claim, position, statement, verdict, reason, effect, low, high, n, unit, decided)
SELECT key, study, claim, position, statement, verdict, reason, effect, low, high, n, unit, decided FROM verdict;

CREATE TABLE verdict_run_v3(
  verdict INTEGER NOT NULL REFERENCES verdict_v3(key), run INTEGER NOT NULL REFERENCES run(number),
  PRIMARY KEY(verdict, run)
) STRICT, WITHOUT ROWID;
INSERT INTO verdict_run_v3 SELECT verdict, run FROM verdict_run;

DROP TABLE verdict_run;
DROP TABLE verdict;
ALTER TABLE verdict_v3 RENAME TO verdict;
ALTER TABLE verdict_run_v3 RENAME TO verdict_run;
CREATE INDEX verdict_by_claim ON verdict(study, claim, position);
)sql";
}

}  // namespace moiety::registry
