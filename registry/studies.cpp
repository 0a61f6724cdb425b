// Studies, arms, claims and verdicts.
#include <fmt/format.h>

#include "registry/internal.h"

namespace moiety::registry {

Status Registry::begin_study(const StudyRow& study, const std::vector<ArmRow>& arms, const std::vector<ClaimRow>& claims) {
  auto& database = connection_->database;
  return database.transaction([&]() -> Status {
    if (auto status = database.execute("INSERT OR IGNORE INTO recipe(hash, name, resolved_text) VALUES(?, ?, ?)",
                                       {study.recipe_hash, study.name, study.resolved_text});
        !status) {
      return status;
    }
    // A study that is begun again (its process was killed) goes on under the same id.
    if (auto status = database.execute(
            "INSERT INTO study(id, recipe, name, about, raw_text, recipe_path, baseline, seeds, confidence, state, started, "
            "host, "
            "host_build_id, git_commit, git_dirty, git_diff) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, 'running', ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT(id) DO UPDATE SET state = 'running', ended = NULL",
            {study.id, study.recipe_hash, study.name, study.about, study.raw_text, study.recipe_path, study.baseline, study.seeds,
             study.confidence, now_milliseconds(), host_name(), study.host_build_id, study.git_commit, study.git_dirty,
             study.git_diff});
        !status) {
      return status;
    }
    const auto key = study_key(database, study.id);
    if (!key) return pass(key);
    for (const auto& arm : arms) {
      if (auto status = database.execute("INSERT OR IGNORE INTO arm(study, name, position, patch_text) VALUES(?, ?, ?, ?)",
                                         {**key, arm.name, arm.position, arm.patch_text});
          !status) {
        return status;
      }
    }
    for (const auto& claim : claims) {
      if (auto status = database.execute(
              "INSERT OR IGNORE INTO claim(study, id, position, that, source, published) VALUES(?, ?, ?, ?, ?, ?)",
              {**key, claim.id, claim.position, claim.that, claim.source, claim.published});
          !status) {
        return status;
      }
    }
    return {};
  });
}

Status Registry::end_study(const std::string& study_id, const std::string& state) {
  auto& database = connection_->database;
  return database.transaction([&]() -> Status {
    const auto key = study_key(database, study_id);
    if (!key) return pass(key);
    return database.execute("UPDATE study SET state = ?, ended = ? WHERE key = ?", {state, now_milliseconds(), **key});
  });
}

Status Registry::write_choices(const std::string& study_id, const std::vector<ChoiceRow>& choices,
                               const std::vector<TrialRow>& trials) {
  auto& database = connection_->database;
  return database.transaction([&]() -> Status {
    const auto study = study_key(database, study_id);
    if (!study) return pass(study);
    if (auto status = database.execute("DELETE FROM choice WHERE study = ?", {**study}); !status) return status;
    for (const auto& choice : choices) {
      if (auto status = database.execute(
              "INSERT INTO choice(study, arm, labels, name, label, rule, value, reason) VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
              {**study, choice.arm, labels_text(choice.labels), choice.name,
               choice.label.empty() ? Value(nullptr) : Value(choice.label), choice.rule, choice.value, choice.reason});
          !status) {
        return status;
      }
    }
    for (const auto& one : trials) {
      if (auto status = database.execute(
              "UPDATE run_stage SET chosen = ? WHERE run = (SELECT number FROM run WHERE id = ?) AND name = ? AND labels = ? AND "
              "trial = ?",
              {one.chosen, one.run_id, one.name, labels_text(one.labels), labels_text(one.trial)});
          !status) {
        return status;
      }
    }
    return {};
  });
}

Status Registry::write_verdicts(const std::string& study_id, const std::vector<VerdictRow>& verdicts) {
  auto& database = connection_->database;
  return database.transaction([&]() -> Status {
    const auto study = study_key(database, study_id);
    if (!study) return pass(study);
    // Judging again replaces: a study has one verdict a statement, that of its latest runs.
    for (const auto& verdict : verdicts) {
      if (auto status =
              database.execute("DELETE FROM verdict_run WHERE verdict IN (SELECT key FROM verdict WHERE study = ? AND claim = ?)",
                               {**study, verdict.claim_id});
          !status) {
        return status;
      }
      if (auto status = database.execute("DELETE FROM verdict WHERE study = ? AND claim = ?", {**study, verdict.claim_id});
          !status) {
        return status;
      }
    }
    int position = 0;
    for (const auto& verdict : verdicts) {
      if (auto status = database.execute(
              "INSERT INTO verdict(study, claim, position, statement, verdict, reason, effect, low, high, n, unit, decided, "
              "adjusted) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
              {**study, verdict.claim_id, position++, verdict.statement, verdict.verdict, verdict.reason, verdict.effect,
               verdict.low, verdict.high, verdict.n, verdict.unit, now_milliseconds(), verdict.adjusted});
          !status) {
        return status;
      }
      const std::int64_t key = database.last_rowid();
      for (const auto& run : verdict.runs) {
        const auto number = database.integer("SELECT number FROM run WHERE id = ?", {run});
        if (!number) return pass(number);
        if (!*number) {
          return fail(ErrorKind::failed,
                      fmt::format("claim {}: its verdict names a run that is not registered: {}", verdict.claim_id, run));
        }
        if (auto status = database.execute("INSERT OR IGNORE INTO verdict_run VALUES(?, ?)", {key, **number}); !status)
          return status;
      }
    }
    return {};
  });
}

}  // namespace moiety::registry
