#include "registry/registry.h"

#include <fmt/format.h>

#include <filesystem>

#include "kernel/base/files.h"
#include "registry/internal.h"

namespace moiety::registry {

Result<Database> open_database(const std::string& path, OpenMode mode, const std::vector<Migration>& steps,
                               std::vector<std::string>& notices) {
  const int newest = steps.back().version;
  const auto header = read_header(path);
  if (auto status = check_header(header, path, newest); !status) return pass(status);
  // An empty file is one that `create` has only just begun: those that read do not write the schema for it.
  const bool missing = !header.exists || header.empty;
  if ((mode == OpenMode::read_only || mode == OpenMode::update) && missing) {
    return fail(ErrorKind::usage, fmt::format("there is no registry at {}", path),
                "`moiety run RECIPE` makes one; another file is named with --registry FILE or MOIETY_DB");
  }
  if (mode == OpenMode::existing && missing) {
    // Whoever opens a registry so was told of it by the run that made it.
    return fail(ErrorKind::environment, fmt::format("the registry {} vanished: it was there when the run began", path),
                "put it back, or run the same command again, which makes a new one: finished stages are kept in the store");
  }
  if (!header.exists) {
    const auto folder = std::filesystem::path(path).parent_path().string();
    if (!folder.empty()) {
      if (auto status = make_folders(folder); !status) return pass(status);
    }
  }
  const bool current = header.version == newest;
  if (mode == OpenMode::read_only && current) return Database::open(path, Database::Access::read_only);

  const auto access = mode == OpenMode::create ? Database::Access::create : Database::Access::read_write;
  auto database = Database::open(path, access);
  if (!database) return database;
  // The schema comes before the journal mode: a foreign file is refused before anything of it is changed.
  if (auto status = migrate(*database, steps, notices); !status) return pass(status);
  if (missing) notices.push_back(fmt::format("created an empty registry: {}", path));
  const auto journal_before = database->text("PRAGMA journal_mode");
  if (!journal_before) return pass(journal_before);
  const auto notice = database->choose_journal();
  if (!notice) return pass(notice);
  // Said when the file is made or changes its mode, not by each process that opens it.
  if (!notice->empty() && (!current || journal_before->value_or("") == "wal")) notices.push_back(*notice);
  if (mode == OpenMode::read_only) return Database::open(path, Database::Access::read_only);
  return database;
}

Result<Registry> Registry::open(const std::string& path, OpenMode mode) {
  std::vector<std::string> notices;
  auto database = open_database(path, mode, migrations(), notices);
  if (!database) return pass(database);
  return Registry(std::unique_ptr<Connection>(new Connection{std::move(*database), std::move(notices), MetricSink()}));
}

Registry::Registry(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
Registry::Registry(Registry&&) noexcept = default;
Registry& Registry::operator=(Registry&&) noexcept = default;
Registry::~Registry() = default;

const std::vector<std::string>& Registry::notices() const { return connection_->notices; }

Result<std::int64_t> stage_key(Database& database, const std::string& stage_id) {
  const auto key = database.integer("SELECT key FROM stage WHERE id = ?", {stage_id});
  if (!key) return pass(key);
  if (!*key) return fail(ErrorKind::failed, fmt::format("{}: no stage {} is registered", database.path(), stage_id));
  return **key;
}

Result<std::optional<std::int64_t>> study_key(Database& database, const std::string& study_id) {
  if (study_id.empty()) return std::optional<std::int64_t>();
  const auto key = database.integer("SELECT key FROM study WHERE id = ?", {study_id});
  if (!key) return pass(key);
  if (!*key) return fail(ErrorKind::failed, fmt::format("{}: no study {} is registered", database.path(), study_id));
  return *key;
}

Status Registry::event(const std::string& study_id, const std::string& stage_id, const std::string& level,
                       const std::string& source, const std::string& message) {
  auto& database = connection_->database;
  return database.execute(
      "INSERT INTO event(study, stage, time, level, source, message) VALUES((SELECT key FROM study WHERE id = ?1), "
      "(SELECT key FROM stage WHERE id = ?2), ?3, ?4, ?5, ?6)",
      {study_id, stage_id, now_milliseconds(), level, source, message});
}

Status Registry::add_artifact(const ArtifactRow& artifact) {
  auto& database = connection_->database;
  return database.transaction([&]() -> Status {
    const auto stage = stage_key(database, artifact.stage_id);
    if (!stage) return pass(stage);
    return database.execute("INSERT OR REPLACE INTO artifact(stage, name, sha256, bytes, path) VALUES(?, ?, ?, ?, ?)",
                            {*stage, artifact.name, artifact.sha256, artifact.bytes, artifact.path});
  });
}

}  // namespace moiety::registry
