// Version 2 of the schema: a run has a stage once for each combination of labels along the axes of its recipe.
#include "registry/schema.h"

namespace moiety::registry {

// The labels of a stage in a run are canonical JSON as those of metrics are; v_final joins the two, the recipe's first. The
// title is the name with its labels, for people: "split [k=4]".
const char* schema_v2() {
  return R"sql(
ALTER TABLE run_stage ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';
ALTER TABLE run_stage ADD COLUMN title TEXT NOT NULL DEFAULT '';
UPDATE run_stage SET title = name;
)sql";
}

}  // namespace moiety::registry
