// Version 2 of the schema: a run has a stage once for each combination of labels along the axes of its recipe.
#include "registry/schema.h"

namespace moiety::registry {

// The labels of a stage in a run are canonical JSON as those of metrics are; the view joins the two, the recipe's first. The
// title is the name with its labels, for people: "split [k=4]".
const char* schema_v2() {
  return R"sql(
ALTER TABLE run_stage ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';
ALTER TABLE run_stage ADD COLUMN title TEXT NOT NULL DEFAULT '';
UPDATE run_stage SET title = name;

DROP VIEW v_arms;
DROP VIEW v_final;
DROP VIEW v_params;

CREATE VIEW v_final AS
SELECT run.number AS run, run.id AS run_id, study.id AS study_id, study.name AS study, run.arm AS arm, run.seed AS seed,
       run_stage.name AS stage, stage.verb AS verb, stage.state AS stage_state,
       metric_name.name AS metric, metric_name.unit AS unit, metric_name.better AS better,
       CASE WHEN run_stage.labels = '{}' THEN label.labels WHEN label.labels = '{}' THEN run_stage.labels
         ELSE substr(run_stage.labels, 1, length(run_stage.labels) - 1) || ',' || substr(label.labels, 2) END AS labels,
       (SELECT value FROM label_kv WHERE label_kv.label = label.key AND label_kv.key = 'domain') AS domain,
       (SELECT value FROM label_kv WHERE label_kv.label = label.key AND label_kv.key = 'set') AS "set",
       metric_summary.last_step AS step, metric_summary.last AS value, metric_summary.last_nonfinite AS nonfinite,
       run.config_hash AS config
FROM run JOIN study ON study.key = run.study
JOIN run_stage ON run_stage.run = run.number JOIN stage ON stage.key = run_stage.stage
JOIN metric_summary ON metric_summary.stage = stage.key
JOIN metric_name ON metric_name.key = metric_summary.name
JOIN label ON label.key = metric_summary.label;

-- The deviation is summed around the mean: the textbook formula with sum(x*x) loses all digits for small spreads.
-- Runs that differ in more than the seed fall into different rows (config).
CREATE VIEW v_arms AS
WITH one AS (
  SELECT study_id, study, arm, stage, metric, unit, better, labels, domain, "set", config, value, nonfinite,
         avg(value) FILTER (WHERE nonfinite = 0)
           OVER (PARTITION BY study_id, arm, stage, metric, labels, config) AS mean
  FROM v_final)
SELECT study_id, study, arm, stage, metric, unit, better, labels, domain, "set",
       sum(nonfinite = 0) AS n, max(mean) AS mean,
       CASE WHEN sum(nonfinite = 0) > 1
         THEN sqrt(sum((value - mean) * (value - mean)) FILTER (WHERE nonfinite = 0) / (sum(nonfinite = 0) - 1)) END AS sd,
       min(value) FILTER (WHERE nonfinite = 0) AS min, max(value) FILTER (WHERE nonfinite = 0) AS max,
       sum(nonfinite <> 0) AS nonfinite, config
FROM one GROUP BY study_id, arm, stage, metric, labels, config;

CREATE VIEW v_params AS
SELECT run.number AS run, study.id AS study_id, study.name AS study, run.arm AS arm, run.seed AS seed,
       run_stage.name AS stage, param.path AS path, param.type AS type, param.num AS num, param.txt AS txt, run_stage.labels AS labels
FROM run JOIN study ON study.key = run.study
JOIN run_stage ON run_stage.run = run.number JOIN param ON param.stage = run_stage.stage;
)sql";
}

}  // namespace moiety::registry
