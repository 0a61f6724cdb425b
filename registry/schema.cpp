#include "registry/schema.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace moiety::registry {

namespace {

int big_endian(const unsigned char* bytes) {
  return static_cast<int>(static_cast<unsigned>(bytes[0]) << 24U | static_cast<unsigned>(bytes[1]) << 16U |
                          static_cast<unsigned>(bytes[2]) << 8U | static_cast<unsigned>(bytes[3]));
}

Error newer_file(const std::string& path, int version, int newest) {
  return Error{ErrorKind::environment,
               fmt::format("{} was written by a newer Moiety: its schema is version {}, this program knows versions up to {}",
                           path, version, newest),
               "use the newer Moiety, or name another file with --registry; the file was not touched"};
}

Error foreign_file(const std::string& path) {
  return Error{ErrorKind::environment, fmt::format("{} is a SQLite database of another program, not a Moiety registry", path),
               "name another file with --registry; the file was not touched"};
}

/// Copies what is committed, through a connection of its own: this one holds the write lock, which readers do not mind.
Status back_up(const std::string& path, const std::string& to) {
  const std::string temporary = fmt::format("{}.tmp.{}", to, getpid());
  auto from = Database::open(path, Database::Access::read_only);
  if (!from) return pass(from);
  int code = SQLITE_ERROR;
  Status status;
  {
    auto copy = Database::open(temporary, Database::Access::create);
    if (!copy) return pass(copy);
    if (sqlite3_backup* backup = sqlite3_backup_init(copy->handle(), "main", from->handle(), "main")) {
      code = sqlite3_backup_step(backup, -1);
      sqlite3_backup_finish(backup);
    }
    if (code != SQLITE_DONE) status = tl::unexpected(sqlite_error(copy->handle(), code, to, "cannot back up before migrating"));
  }
  if (!status) {
    std::remove(temporary.c_str());
    return status;
  }
  std::error_code error;
  std::filesystem::rename(temporary, to, error);
  if (error) return fail(ErrorKind::environment, fmt::format("{}: cannot back up before migrating: {}", to, error.message()));
  return {};
}

}  // namespace

FileHeader read_header(const std::string& path) {
  FileHeader header;
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) header.problem = "cannot be looked at: " + std::generic_category().message(errno);
    return header;
  }
  header.exists = true;
  if (!S_ISREG(info.st_mode)) {
    header.problem = S_ISDIR(info.st_mode) ? "is a folder, not a registry" : "is not a regular file";
    return header;
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    header.problem = "cannot be read: " + std::generic_category().message(errno);
    return header;
  }
  std::array<unsigned char, 100> bytes{};
  file.read(reinterpret_cast<char*>(bytes.data()), bytes.size());
  header.empty = file.gcount() == 0;
  if (file.gcount() < static_cast<std::streamsize>(bytes.size())) return header;
  header.sqlite = std::memcmp(bytes.data(), "SQLite format 3", 16) == 0;
  // https://www.sqlite.org/fileformat2.html 1.3: user_version at 60, application_id at 68.
  header.version = big_endian(bytes.data() + 60);
  header.application = big_endian(bytes.data() + 68);
  return header;
}

Status check_header(const FileHeader& header, const std::string& path, int newest) {
  if (!header.problem.empty()) {
    return fail(ErrorKind::environment, fmt::format("{} {}", path, header.problem), "name another file with --registry");
  }
  if (!header.exists || header.empty) return {};
  if (!header.sqlite) {
    return fail(ErrorKind::environment, fmt::format("{} is not a Moiety registry (no SQLite file)", path),
                "name another file with --registry; the file was not touched");
  }
  // Another process may just have created the file and not yet written its schema: 0 and 0 is judged in the transaction.
  if (header.application != application_id && (header.application != 0 || header.version != 0)) {
    return tl::unexpected(foreign_file(path));
  }
  if (header.version > newest) return tl::unexpected(newer_file(path, header.version, newest));
  return {};
}

Status migrate(Database& database, const std::vector<Migration>& steps, std::vector<std::string>& notices) {
  const int newest = steps.back().version;
  const auto version = [&] { return database.integer("PRAGMA user_version"); };
  const auto before = version();
  if (!before) return pass(before);
  if (**before == newest) return {};

  // Whoever migrates a big file copies it first; the others must not give up after the usual minute.
  database.set_patience(600'000);
  const Status status = database.transaction([&]() -> Status {
    const auto inside = version();
    if (!inside) return pass(inside);
    const int found = static_cast<int>(**inside);
    if (found > newest) return tl::unexpected(newer_file(database.path(), found, newest));
    if (found == newest) return {};
    if (found == 0) {
      const auto objects = database.integer("SELECT count(*) FROM sqlite_master");
      if (!objects) return pass(objects);
      if (**objects > 0) return tl::unexpected(foreign_file(database.path()));
    } else {
      const std::string backup = fmt::format("{}.v{}.backup", database.path(), found);
      if (auto done = back_up(database.path(), backup); !done) return done;
      notices.push_back(fmt::format("{}: migrated from schema version {} to {}; the old file is kept as {}", database.path(),
                                    found, newest, backup));
    }
    if (auto done = database.script(drop_views_sql()); !done) return done;
    for (const auto& step : steps) {
      if (step.version <= found) continue;
      if (auto done = database.script(step.sql); !done) return done;
    }
    if (auto done = database.script(create_views_sql()); !done) return done;
    if (auto done = database.script(fmt::format("PRAGMA user_version = {}; PRAGMA application_id = {}", newest, application_id));
        !done) {
      return done;
    }
    if (auto done = database.execute("INSERT OR IGNORE INTO meta VALUES('created_by_schema', ?)", {std::to_string(newest)});
        !done) {
      return done;
    }
    return database.execute("INSERT OR REPLACE INTO meta VALUES('schema_version', ?)", {std::to_string(newest)});
  });
  database.set_patience(60'000);
  return status;
}

}  // namespace moiety::registry
