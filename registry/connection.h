// A connection to one SQLite file: cached prepared statements, BEGIN IMMEDIATE transactions, and errors as values.
//
// SQLite's own C interface is wrapped here and nowhere else (except the `sql` command, whose connection is locked down). One
// thread at a time may use a Database. Example:
//
//   auto database = Database::open("moiety.db", Database::Access::create);
//   Status status = database->transaction([&]() -> Status { return database->execute("DELETE FROM run WHERE id = ?", {id}); });
#ifndef MOIETY_REGISTRY_CONNECTION_H_
#define MOIETY_REGISTRY_CONNECTION_H_

#include <sqlite3.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

#include "kernel/base/result.h"

namespace moiety::registry {

/// A value to bind. It refers to the caller's text, which SQLite copies before the call returns.
class Value {
 public:
  Value(std::nullptr_t) : content_(nullptr) {}
  Value(bool value) : content_(std::int64_t{value}) {}
  Value(int value) : content_(std::int64_t{value}) {}
  Value(std::int64_t value) : content_(value) {}
  Value(double value) : content_(value) {}
  Value(const char* value) : content_(std::string_view(value)) {}
  Value(std::string_view value) : content_(value) {}
  Value(const std::string& value) : content_(std::string_view(value)) {}
  Value(const std::optional<double>& value) {
    if (value) {
      content_ = *value;
    }
  }
  int bind(sqlite3_stmt* statement, int index) const;

 private:
  std::variant<std::nullptr_t, std::int64_t, double, std::string_view> content_ = nullptr;
};
using Values = std::initializer_list<Value>;

/// The rows of a running query. Gives its statement back to the connection's cache when it goes.
class Query {
 public:
  Query(Query&& other) noexcept;
  Query& operator=(Query&&) = delete;
  ~Query();

  /// True when there is a row to read, false after the last.
  Result<bool> next();
  bool null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double real(int column) const { return sqlite3_column_double(statement_, column); }
  std::string text(int column) const;

 private:
  friend class Database;
  Query(sqlite3* connection, sqlite3_stmt* statement, bool* busy) : connection_(connection), statement_(statement), busy_(busy) {}

  sqlite3* connection_;
  sqlite3_stmt* statement_;
  bool* busy_;  ///< the mark in the cache; null for a statement outside it
};

class Database {
 public:
  enum class Access { create, read_write, read_only };

  /// Opens the file with the settings all connections share: patience with other writers (a minute), foreign keys, synchronous
  /// NORMAL, no memory map.
  /// The journal mode is chosen by `choose_journal`.
  static Result<Database> open(const std::string& path, Access access);
  Database(Database&&) noexcept;
  Database& operator=(Database&&) = delete;
  ~Database();

  /// How long to wait for a file that another process has locked.
  void set_patience(int milliseconds) { patience_->milliseconds = milliseconds; }

  /// WAL on a local disk; on a network file system, where WAL's shared memory does not work, DELETE. Returns a line for the user
  /// when a network file system made it leave WAL or start without it, else "".
  Result<std::string> choose_journal();

  Result<Query> query(std::string_view sql, Values values = {});
  /// Runs a statement to its end; rows are dropped.
  Status execute(std::string_view sql, Values values = {});
  /// Several statements, uncached.
  Status script(const std::string& sql);
  /// First column of the first row; nothing when there is no row or it is NULL.
  Result<std::optional<std::int64_t>> integer(std::string_view sql, Values values = {});
  Result<std::optional<std::string>> text(std::string_view sql, Values values = {});
  /// Calls `visit(const Query&)` for each row.
  template <class Visit>
  Status each(std::string_view sql, Values values, Visit visit) {
    auto rows = query(sql, values);
    if (!rows) return pass(rows);
    for (;;) {
      const auto more = rows->next();
      if (!more) return pass(more);
      if (!*more) return {};
      visit(std::as_const(*rows));
    }
  }

  /// BEGIN IMMEDIATE, `body() -> Status`, COMMIT; rolled back when either fails. IMMEDIATE, because a deferred transaction that
  /// turns into a writer fails at once when another process wrote meanwhile, whatever the busy timeout.
  template <class Body>
  Status transaction(Body body) {
    if (auto status = execute("BEGIN IMMEDIATE"); !status) return status;
    Status status = body();
    if (status) status = execute("COMMIT");
    if (!status) rollback();
    return status;
  }

  std::int64_t last_rowid() const { return sqlite3_last_insert_rowid(connection_); }
  int changes() const { return sqlite3_changes(connection_); }
  const std::string& path() const { return path_; }
  sqlite3* handle() { return connection_; }

 private:
  struct Cached {
    sqlite3_stmt* statement = nullptr;
    bool busy = false;
  };

  /// SQLite's own busy timeout sleeps 100 ms between tries: among eight busy writers on a loaded machine one was starved for over
  /// ten seconds. This one tries every few milliseconds, at uneven times.
  struct Patience {
    int milliseconds = 60'000;
    std::int64_t since = 0;
    std::uint32_t random = 0;
    static int wait(void* patience, int tries);
  };

  Database(sqlite3* connection, std::string path)
      : connection_(connection), path_(std::move(path)), patience_(std::make_unique<Patience>()) {}
  void rollback();

  sqlite3* connection_;
  std::string path_;
  std::unordered_map<std::string, std::unique_ptr<Cached>> statements_;
  std::unique_ptr<Patience> patience_;
};

/// What SQLite's last error on this connection means for the user. A full disk, an unwritable folder, a damaged or foreign file
/// are `environment`; the rest is `failed`.
Error sqlite_error(sqlite3* connection, int code, const std::string& path, std::string_view doing);

/// Name of the network file system that `folder` lies on (nfs, lustre, fuse, …), or "" for a local one.
std::string network_filesystem(const std::string& folder);
/// For tests: replaces the question to the kernel; null asks the kernel again.
void replace_network_filesystem(std::string (*probe)(const std::string& folder));

}  // namespace moiety::registry

#endif  // MOIETY_REGISTRY_CONNECTION_H_
