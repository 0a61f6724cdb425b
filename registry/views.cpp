// The views as they are now, whatever the version of the tables they were made from: one text, made anew with every migration.
#include "registry/report_common.h"
#include "registry/schema.h"

namespace moiety::registry {

namespace {

/// The last value of every metric of every stage of every run.
constexpr const char* last_values = R"sql(FROM run JOIN study ON study.key = run.study
JOIN run_stage ON run_stage.run = run.number JOIN stage ON stage.key = run_stage.stage
JOIN metric_summary ON metric_summary.stage = stage.key
JOIN metric_name ON metric_name.key = metric_summary.name
JOIN label ON label.key = metric_summary.label
)sql";

}  // namespace

std::string drop_views_sql() {
  std::string sql;
  for (const char* view : {"v_arms", "v_final", "v_params", "v_claims", "v_runs", "v_trials", "v_choices"})
    sql += std::string("DROP VIEW IF EXISTS ") + view + ";\n";
  return sql;
}

// No function here may be one that SQLite calls unsafe in a view under trusted_schema=OFF (json_extract is).
std::string create_views_sql() {
  return std::string(R"sql(
CREATE VIEW v_runs AS
SELECT run.number AS run, run.id AS run_id, study.id AS study_id, study.name AS study, run.arm AS arm, run.seed AS seed,
       CASE max(CASE iif(run_stage.chosen = 0, 'done', ifnull(stage.state, 'waiting')) WHEN 'failed' THEN 7 WHEN 'diverged' THEN 6 WHEN 'interrupted' THEN 5 WHEN 'running' THEN 4
                                 WHEN 'waiting' THEN 3 WHEN 'skipped' THEN 2 ELSE 1 END)
         WHEN 7 THEN 'failed' WHEN 6 THEN 'diverged' WHEN 5 THEN 'interrupted' WHEN 4 THEN 'running'
         WHEN 3 THEN 'waiting' WHEN 2 THEN 'skipped' WHEN 1 THEN 'done' END AS state,
       count(stage.key) AS stages, count(stage.key) FILTER (WHERE stage.state = 'done') AS stages_done,
       strftime('%Y-%m-%d %H:%M:%S', run.created / 1000.0, 'unixepoch') AS created,
       run.config_hash AS config, run.unit AS unit
FROM run JOIN study ON study.key = run.study
LEFT JOIN run_stage ON run_stage.run = run.number LEFT JOIN stage ON stage.key = run_stage.stage
GROUP BY run.number;

CREATE VIEW v_final AS
SELECT run.number AS run, run.id AS run_id, study.id AS study_id, study.name AS study, run.arm AS arm, run.seed AS seed,
       run_stage.name AS stage, stage.verb AS verb, stage.state AS stage_state,
       metric_name.name AS metric, metric_name.unit AS unit, metric_name.better AS better,
)sql") + "       " +
         joined_labels + R"sql( AS labels,
       (SELECT value FROM label_kv WHERE label_kv.label = label.key AND label_kv.key = 'domain') AS domain,
       (SELECT value FROM label_kv WHERE label_kv.label = label.key AND label_kv.key = 'set') AS "set",
       metric_summary.last_step AS step, metric_summary.last AS value, metric_summary.last_nonfinite AS nonfinite,
       run.config_hash AS config
)sql" + last_values +
         R"sql(WHERE run_stage.chosen = 1;

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

CREATE VIEW v_claims AS
SELECT study.id AS study_id, study.name AS study, claim.id AS claim, claim.position AS position, claim.that AS that,
       coalesce(verdict.statement, '') AS statement, verdict.verdict AS verdict, verdict.reason AS reason,
       verdict.effect AS effect, verdict.low AS low, verdict.high AS high, verdict.n AS n, verdict.unit AS unit,
       claim.source AS source, claim.published AS published, coalesce(verdict.adjusted, '') AS adjusted,
       (SELECT group_concat(run, ' ') FROM verdict_run WHERE verdict_run.verdict = verdict.key) AS runs
FROM claim JOIN study ON study.key = claim.study
LEFT JOIN verdict ON verdict.study = claim.study AND verdict.claim = claim.id;

CREATE VIEW v_params AS
SELECT run.number AS run, study.id AS study_id, study.name AS study, run.arm AS arm, run.seed AS seed,
       run_stage.name AS stage, param.path AS path, param.type AS type, param.num AS num, param.txt AS txt, run_stage.labels AS labels,
       run_stage.trial AS trial, run_stage.chosen AS chosen
FROM run JOIN study ON study.key = run.study
JOIN run_stage ON run_stage.run = run.number JOIN param ON param.stage = run_stage.stage;

CREATE VIEW v_trials AS
SELECT run.number AS run, study.id AS study_id, study.name AS study, run.arm AS arm, run.seed AS seed, run_stage.name AS stage,
       stage.state AS stage_state, run_stage.labels AS labels, run_stage.trial AS trial, run_stage.chosen AS chosen,
       metric_name.name AS metric, label.labels AS metric_labels, metric_summary.last AS value,
       metric_summary.last_nonfinite AS nonfinite
)sql" + last_values +
         R"sql(WHERE run_stage.trial <> '{}';

CREATE VIEW v_choices AS
SELECT study.id AS study_id, study.name AS study, choice.arm AS arm, choice.labels AS labels, choice.name AS choice,
       choice.label AS label, choice.rule AS rule, choice.value AS value, choice.reason AS reason
FROM choice JOIN study ON study.key = choice.study;
)sql";
}

}  // namespace moiety::registry
