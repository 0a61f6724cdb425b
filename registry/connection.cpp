#include "registry/connection.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

namespace moiety::registry {

namespace {

std::string file_of(sqlite3* connection) {
  const char* name = connection == nullptr ? nullptr : sqlite3_db_filename(connection, "main");
  return name == nullptr ? "the registry" : name;
}

}  // namespace

Error sqlite_error(sqlite3* connection, int code, const std::string& path, std::string_view doing) {
  const std::string reason = connection == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(connection);
  const auto error = [&](ErrorKind kind, const std::string& why, std::string hint) {
    return Error{kind, fmt::format("{}: {}: {}", path, doing, why), std::move(hint)};
  };
  switch (code & 0xFF) {
    case SQLITE_FULL:
      return error(ErrorKind::environment, "the disk is full",
                   "free some space and run the same command again; committed rows are safe");
    case SQLITE_IOERR:
      return error(ErrorKind::environment, fmt::format("{} (the disk may be full or gone)", reason),
                   "check the disk with `df`, then run the same command again; committed rows are safe");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return error(ErrorKind::environment, "another process kept the file locked for over a minute",
                   "see who has it open with `fuser -v`, then run the same command again");
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      return error(ErrorKind::environment, reason,
                   "check that the folder exists and is writable, or name another file with --registry");
    case SQLITE_NOTADB:
      return error(ErrorKind::environment, "this file is not a Moiety registry", "name another file with --registry");
    case SQLITE_CORRUPT:
      return error(ErrorKind::environment, fmt::format("the file is damaged ({})", reason),
                   "keep a copy, recover what can be read with `sqlite3 FILE .recover`, or name another file with --registry");
    default:
      return error(ErrorKind::failed, reason, "");
  }
}

int Value::bind(sqlite3_stmt* statement, int index) const {
  struct Binder {
    sqlite3_stmt* statement;
    int index;
    int operator()(std::nullptr_t) const { return sqlite3_bind_null(statement, index); }
    int operator()(std::int64_t value) const { return sqlite3_bind_int64(statement, index, value); }
    int operator()(double value) const { return sqlite3_bind_double(statement, index, value); }
    int operator()(std::string_view value) const {
      return sqlite3_bind_text64(statement, index, value.data() == nullptr ? "" : value.data(), value.size(), SQLITE_TRANSIENT,
                                 SQLITE_UTF8);
    }
  };
  return std::visit(Binder{statement, index}, content_);
}

Query::Query(Query&& other) noexcept
    : connection_(other.connection_), statement_(std::exchange(other.statement_, nullptr)), busy_(other.busy_) {}

Query::~Query() {
  if (statement_ == nullptr) return;
  if (busy_ == nullptr) {
    sqlite3_finalize(statement_);
    return;
  }
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  *busy_ = false;
}

Result<bool> Query::next() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  const char* sql = sqlite3_sql(statement_);
  const std::string_view text = sql == nullptr ? "" : sql;
  return tl::unexpected(sqlite_error(connection_, sqlite3_extended_errcode(connection_), file_of(connection_),
                                     text.substr(0, text.find_first_of(" \n(", text.find(' ') + 1))));
}

std::string Query::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return bytes == nullptr ? std::string()
                          : std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
}

Result<Database> Database::open(const std::string& path, Access access) {
  const int flags = SQLITE_OPEN_NOMUTEX | (access == Access::read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) |
                    (access == Access::create ? SQLITE_OPEN_CREATE : 0);
  sqlite3* connection = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &connection, flags, nullptr);
  Database database(connection, path);
  if (code != SQLITE_OK) return tl::unexpected(sqlite_error(connection, code, path, "cannot open"));
  sqlite3_extended_result_codes(connection, 1);
  database.patience_->random = static_cast<std::uint32_t>(getpid()) * 2654435761U + 1;
  sqlite3_busy_handler(connection, Patience::wait, database.patience_.get());
  if (auto status = database.script("PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL; PRAGMA mmap_size = 0;"); !status) {
    return pass(status);
  }
  return database;
}

Database::Database(Database&& other) noexcept
    : connection_(std::exchange(other.connection_, nullptr)),
      path_(std::move(other.path_)),
      statements_(std::move(other.statements_)),
      patience_(std::move(other.patience_)) {}

Database::~Database() {
  for (auto& [sql, cached] : statements_) sqlite3_finalize(cached->statement);
  sqlite3_close(connection_);
}

int Database::Patience::wait(void* patience, int tries) {
  auto& self = *static_cast<Patience*>(patience);
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (tries == 0) self.since = now;
  if (now - self.since > self.milliseconds) return 0;
  self.random = self.random * 1664525U + 1013904223U;  // Numerical Recipes' quick generator: only to come at uneven times
  const auto most = static_cast<std::uint32_t>(std::min(1 + tries, 10)) * 1000U;
  std::this_thread::sleep_for(std::chrono::microseconds(200 + (self.random >> 8U) % most));
  return 1;
}

Result<std::string> Database::choose_journal() {
  const auto folder = std::filesystem::absolute(path_).parent_path().string();
  const std::string network = network_filesystem(folder);
  const std::string wanted = network.empty() ? "wal" : "delete";
  // The change needs the file for itself for a moment, and SQLite does not always ask the busy handler for it.
  for (int attempt = 0;; ++attempt) {
    const auto current = text("PRAGMA journal_mode");
    if (!current) return pass(current);
    if (current->value_or("") == wanted) break;
    const auto changed = text(wanted == "wal" ? "PRAGMA journal_mode = WAL" : "PRAGMA journal_mode = DELETE");
    if (changed && changed->value_or("") == wanted) break;
    const bool busy = changed || (sqlite3_errcode(connection_) & 0xFF) == SQLITE_BUSY;
    if (!busy) return pass(changed);
    // Another connection is using the file in its present mode: that is slower (or, on a network, no worse than before), not
    // wrong.
    if (attempt == 200) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (network.empty()) return std::string();
  return fmt::format(
      "{} lies on a network file system ({}): using the slower journal mode DELETE, which works there. "
      "For speed name a file on a local disk with MOIETY_DB or --registry.",
      path_, network);
}

Result<Query> Database::query(std::string_view sql, Values values) {
  auto& slot = statements_[std::string(sql)];
  if (!slot) slot = std::make_unique<Cached>();
  sqlite3_stmt* statement = slot->busy ? nullptr : slot->statement;
  bool* busy = slot->busy ? nullptr : &slot->busy;
  if (statement == nullptr) {
    const unsigned flags = busy == nullptr ? 0 : SQLITE_PREPARE_PERSISTENT;
    const int code = sqlite3_prepare_v3(connection_, sql.data(), static_cast<int>(sql.size()), flags, &statement, nullptr);
    if (code != SQLITE_OK) return tl::unexpected(sqlite_error(connection_, code, path_, fmt::format("cannot prepare `{}`", sql)));
    if (busy != nullptr) slot->statement = statement;
  }
  if (busy != nullptr) *busy = true;
  Query rows(connection_, statement, busy);
  int index = 0;
  for (const auto& value : values) {
    const int code = value.bind(statement, ++index);
    if (code != SQLITE_OK) return tl::unexpected(sqlite_error(connection_, code, path_, fmt::format("cannot bind to `{}`", sql)));
  }
  return rows;
}

Status Database::execute(std::string_view sql, Values values) {
  return each(sql, values, [](const Query&) {});
}

Status Database::script(const std::string& sql) {
  const int code = sqlite3_exec(connection_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code == SQLITE_OK) return {};
  return tl::unexpected(sqlite_error(connection_, code, path_, fmt::format("cannot run `{}`", sql.substr(0, sql.find('\n')))));
}

Result<std::optional<std::int64_t>> Database::integer(std::string_view sql, Values values) {
  auto rows = query(sql, values);
  if (!rows) return pass(rows);
  const auto more = rows->next();
  if (!more) return pass(more);
  if (!*more || rows->null(0)) return std::optional<std::int64_t>();
  return std::optional<std::int64_t>(rows->integer(0));
}

Result<std::optional<std::string>> Database::text(std::string_view sql, Values values) {
  auto rows = query(sql, values);
  if (!rows) return pass(rows);
  const auto more = rows->next();
  if (!more) return pass(more);
  if (!*more || rows->null(0)) return std::optional<std::string>();
  return std::optional<std::string>(rows->text(0));
}

void Database::rollback() {
  // SQLite has rolled back by itself after some errors (disk full among them); a second ROLLBACK would only be an error of its
  // own.
  if (sqlite3_get_autocommit(connection_) == 0) sqlite3_exec(connection_, "ROLLBACK", nullptr, nullptr, nullptr);
}

}  // namespace moiety::registry
