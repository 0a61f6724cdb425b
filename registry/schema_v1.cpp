// Version 1 of the schema. The views are the public interface (README.md); tables may change under a migration.
#include "registry/schema.h"

namespace moiety::registry {

namespace {

constexpr const char* tables = R"sql(
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE recipe(
  hash TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  resolved_text TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Times are milliseconds since 1970 (UTC).
CREATE TABLE study(
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  recipe TEXT NOT NULL REFERENCES recipe(hash),
  name TEXT NOT NULL, about TEXT NOT NULL,
  raw_text TEXT NOT NULL, recipe_path TEXT NOT NULL,
  baseline TEXT NOT NULL,
  seeds INTEGER NOT NULL,
  confidence REAL NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('running', 'done', 'failed', 'interrupted')),
  started INTEGER NOT NULL, ended INTEGER,
  host TEXT NOT NULL, host_build_id TEXT NOT NULL,
  git_commit TEXT NOT NULL, git_dirty INTEGER NOT NULL, git_diff TEXT NOT NULL
) STRICT;

CREATE TABLE arm(
  study INTEGER NOT NULL REFERENCES study(key),
  name TEXT NOT NULL, position INTEGER NOT NULL, patch_text TEXT NOT NULL,
  PRIMARY KEY(study, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE plugin(
  key INTEGER PRIMARY KEY,
  kind TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL, build_id TEXT NOT NULL, path TEXT NOT NULL,
  UNIQUE(kind, name, version, build_id)
) STRICT;

-- `described` is 0 for a stage that a run refers to before its description was added.
CREATE TABLE stage(
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  described INTEGER NOT NULL,
  name TEXT NOT NULL, verb TEXT NOT NULL,
  config TEXT NOT NULL, config_hash TEXT NOT NULL,
  seed INTEGER NOT NULL, pinned INTEGER NOT NULL,
  corpus_hash TEXT NOT NULL, task_hash TEXT NOT NULL,
  state TEXT NOT NULL
    CHECK(state IN ('waiting', 'running', 'done', 'failed', 'diverged', 'interrupted', 'skipped')),
  created INTEGER NOT NULL
) STRICT;

CREATE TABLE stage_input(
  stage INTEGER NOT NULL REFERENCES stage(key), position INTEGER NOT NULL,
  name TEXT NOT NULL, input INTEGER NOT NULL REFERENCES stage(key),
  PRIMARY KEY(stage, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE stage_plugin(
  stage INTEGER NOT NULL REFERENCES stage(key), slot TEXT NOT NULL,
  plugin INTEGER NOT NULL REFERENCES plugin(key),
  PRIMARY KEY(stage, slot)
) STRICT, WITHOUT ROWID;

-- Leaves of a stage's resolved parameters. txt is exact, num is there to filter on.
CREATE TABLE param(
  stage INTEGER NOT NULL REFERENCES stage(key), path TEXT NOT NULL,
  type TEXT NOT NULL CHECK(type IN ('bool', 'integer', 'number', 'text', 'null', 'empty')),
  num REAL, txt TEXT NOT NULL,
  PRIMARY KEY(stage, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX param_by_path ON param(path, txt);

CREATE TABLE run(
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  study INTEGER NOT NULL,
  arm TEXT NOT NULL,
  seed INTEGER NOT NULL,
  unit TEXT NOT NULL,
  config_hash TEXT NOT NULL,
  created INTEGER NOT NULL,
  FOREIGN KEY(study, arm) REFERENCES arm(study, name)
) STRICT;
CREATE INDEX run_by_study ON run(study, arm, seed);

CREATE TABLE run_stage(
  run INTEGER NOT NULL REFERENCES run(number), position INTEGER NOT NULL,
  name TEXT NOT NULL, stage INTEGER NOT NULL REFERENCES stage(key),
  PRIMARY KEY(run, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_stage_by_stage ON run_stage(stage);

CREATE TABLE attempt(
  key INTEGER PRIMARY KEY AUTOINCREMENT,
  stage INTEGER NOT NULL REFERENCES stage(key),
  study INTEGER REFERENCES study(key),
  number INTEGER NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('running', 'done', 'failed', 'diverged', 'interrupted')),
  started INTEGER NOT NULL, heartbeat INTEGER NOT NULL, ended INTEGER,
  host TEXT NOT NULL, boot_id TEXT NOT NULL, pid_space TEXT NOT NULL,
  pid INTEGER NOT NULL, pid_start TEXT NOT NULL,
  threads INTEGER NOT NULL, device TEXT NOT NULL, cpu TEXT NOT NULL,
  worker_build_id TEXT NOT NULL, torch_version TEXT NOT NULL, torch_build_id TEXT NOT NULL,
  log_path TEXT NOT NULL,
  exit_code INTEGER, signal INTEGER,
  error TEXT, component TEXT, function TEXT, stderr_tail TEXT,
  wall_seconds REAL, cpu_seconds REAL, peak_memory INTEGER, tokens INTEGER, flops REAL,
  UNIQUE(stage, number)
) STRICT;
CREATE INDEX attempt_running ON attempt(state) WHERE state = 'running';

CREATE TABLE metric_name(
  key INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
  unit TEXT NOT NULL, better INTEGER NOT NULL, doc TEXT NOT NULL
) STRICT;

-- A set of labels is its canonical JSON text (keys sorted); key 1 is the empty set.
CREATE TABLE label(key INTEGER PRIMARY KEY, labels TEXT NOT NULL UNIQUE) STRICT;
INSERT INTO label VALUES(1, '{}');
CREATE TABLE label_kv(
  label INTEGER NOT NULL REFERENCES label(key), key TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY(label, key)
) STRICT, WITHOUT ROWID;

-- nonfinite: 0 finite, 1 NaN, 2 +Inf, 3 -Inf. SQLite stores NaN as NULL, so the flag is what keeps it.
CREATE TABLE metric(
  stage INTEGER NOT NULL REFERENCES stage(key),
  name INTEGER NOT NULL REFERENCES metric_name(key),
  label INTEGER NOT NULL REFERENCES label(key),
  step INTEGER NOT NULL,
  value REAL, nonfinite INTEGER NOT NULL CHECK(nonfinite IN (0, 1, 2, 3)),
  PRIMARY KEY(stage, name, label, step),
  CHECK((value IS NULL) = (nonfinite = 1))
) STRICT, WITHOUT ROWID;

-- One row a series, kept by the writer; min and max are over finite values.
CREATE TABLE metric_summary(
  stage INTEGER NOT NULL REFERENCES stage(key),
  name INTEGER NOT NULL REFERENCES metric_name(key),
  label INTEGER NOT NULL REFERENCES label(key),
  n INTEGER NOT NULL, n_nonfinite INTEGER NOT NULL,
  first_step INTEGER NOT NULL, first REAL, first_nonfinite INTEGER NOT NULL,
  last_step INTEGER NOT NULL, last REAL, last_nonfinite INTEGER NOT NULL,
  min REAL, min_step INTEGER, max REAL, max_step INTEGER,
  PRIMARY KEY(stage, name, label)
) STRICT, WITHOUT ROWID;

CREATE TABLE artifact(
  stage INTEGER NOT NULL REFERENCES stage(key), name TEXT NOT NULL,
  sha256 TEXT NOT NULL, bytes INTEGER NOT NULL, path TEXT NOT NULL,
  PRIMARY KEY(stage, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE claim(
  study INTEGER NOT NULL REFERENCES study(key), id TEXT NOT NULL, position INTEGER NOT NULL,
  that TEXT NOT NULL, source TEXT NOT NULL, published TEXT NOT NULL,
  PRIMARY KEY(study, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE verdict(
  key INTEGER PRIMARY KEY,
  study INTEGER NOT NULL, claim TEXT NOT NULL, position INTEGER NOT NULL,
  statement TEXT NOT NULL,
  verdict TEXT NOT NULL CHECK(verdict IN ('supported', 'refuted', 'undecided')),
  reason TEXT NOT NULL,
  effect REAL, low REAL, high REAL, n INTEGER NOT NULL, unit TEXT NOT NULL, decided INTEGER NOT NULL,
  FOREIGN KEY(study, claim) REFERENCES claim(study, id)
) STRICT;
CREATE INDEX verdict_by_claim ON verdict(study, claim, position);

CREATE TABLE verdict_run(
  verdict INTEGER NOT NULL REFERENCES verdict(key), run INTEGER NOT NULL REFERENCES run(number),
  PRIMARY KEY(verdict, run)
) STRICT, WITHOUT ROWID;

CREATE TABLE event(
  key INTEGER PRIMARY KEY,
  study INTEGER REFERENCES study(key), stage INTEGER REFERENCES stage(key),
  time INTEGER NOT NULL, level TEXT NOT NULL, source TEXT NOT NULL, message TEXT NOT NULL
) STRICT;
CREATE INDEX event_by_stage ON event(stage);
)sql";

}  // namespace

const std::vector<Migration>& migrations() {
  static const std::vector<Migration> all = {{1, tables}, {2, schema_v2()}, {3, schema_v3()}, {4, schema_v4()}};
  return all;
}

}  // namespace moiety::registry
