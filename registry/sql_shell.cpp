// `moiety sql`: someone else's query over a file that may be someone else's too. The connection is read-only, but that alone
// would still let VACUUM INTO and ATTACH write other files: an authorizer allows reading and nothing else.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "kernel/base/text.h"
#include "registry/internal.h"
#include "registry/report.h"
#include "registry/row_printer.h"
#include "registry/sql_functions.h"
#include "registry/table.h"

namespace moiety::registry {

namespace {

std::atomic<bool> interrupted{false};

/// While a query runs, Ctrl-C ends the query; afterwards the signal is passed on to whoever handled it before.
class InterruptGuard {
 public:
  InterruptGuard() {
    interrupted = false;
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = true; };
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &before_);
  }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard() {
    sigaction(SIGINT, &before_, nullptr);
    if (interrupted) raise(SIGINT);
  }

 private:
  struct sigaction before_ {};
};

bool is_one_of(const char* text, std::initializer_list<const char*> names) {
  return text != nullptr &&
         std::any_of(names.begin(), names.end(), [&](const char* name) { return sqlite3_stricmp(text, name) == 0; });
}

/// `denied` receives what was refused, in the user's words.
int authorize(void* denied, int action, const char* first, const char* second, const char*, const char*) {
  const auto refuse = [&](const std::string& what) {
    *static_cast<std::string*>(denied) = what;
    return SQLITE_DENY;
  };
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
      return SQLITE_OK;
    case SQLITE_FUNCTION:
      if (is_one_of(second, {"load_extension", "fts3_tokenizer", "writefile", "readfile", "edit"})) return refuse(second);
      return SQLITE_OK;
    case SQLITE_PRAGMA:
      // With a table's or an index's name:
      if (is_one_of(first,
                    {"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list"})) {
        return SQLITE_OK;
      }
      // Without a value, which would set them:
      if (second == nullptr &&
          is_one_of(first, {"user_version", "application_id", "journal_mode", "database_list", "compile_options",
                            "integrity_check", "quick_check", "page_count", "page_size", "function_list"})) {
        return SQLITE_OK;
      }
      return refuse(fmt::format("PRAGMA {}{}", first == nullptr ? "" : first, second == nullptr ? "" : " with a value"));
    case SQLITE_ATTACH:
      return refuse("ATTACH (VACUUM INTO uses it too)");
    case SQLITE_DETACH:
      return refuse("DETACH");
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
      return refuse("a transaction");
    case SQLITE_UPDATE:
      // SQLite asks this of itself when it sets up a table-valued function (json_each, pragma_table_info). A statement that would
      // write is refused by sqlite3_stmt_readonly and by the read-only connection all the same.
      if (is_one_of(first, {"sqlite_master"})) return SQLITE_OK;
      return refuse("changing the registry");
    default:
      return refuse("changing the registry");
  }
}

/// Position behind blanks, comments and semicolons.
std::size_t skip_blanks(const std::string& query) {
  std::size_t at = 0;
  while (at < query.size()) {
    while (at < query.size() && (std::isspace(static_cast<unsigned char>(query[at])) != 0 || query[at] == ';')) ++at;
    if (query.compare(at, 2, "--") == 0) {
      at = std::min(query.find('\n', at), query.size());
    } else if (query.compare(at, 2, "/*") == 0) {
      const auto end = query.find("*/", at + 2);
      at = end == std::string::npos ? query.size() : end + 2;
    } else {
      break;
    }
  }
  return at;
}

std::string first_word(const std::string& query) {
  std::size_t at = skip_blanks(query);
  std::string word;
  while (at < query.size() && std::isalpha(static_cast<unsigned char>(query[at])) != 0) {
    word += static_cast<char>(std::toupper(static_cast<unsigned char>(query[at++])));
  }
  return word;
}

bool has_outer_join(const std::string& query) {
  std::string word;
  for (const char c : query + " ") {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    if (word == "left" || word == "right" || word == "full") return true;
    word.clear();
  }
  return false;
}

/// In these columns NULL is how SQLite keeps NaN (the tables' checks and the flag beside them say so).
bool null_means_nan(sqlite3_stmt* statement, int column) {
  const char* table = sqlite3_column_table_name(statement, column);
  const char* origin = sqlite3_column_origin_name(statement, column);
  if (table == nullptr || origin == nullptr) return false;
  return (std::strcmp(table, "metric") == 0 && std::strcmp(origin, "value") == 0) ||
         (std::strcmp(table, "metric_summary") == 0 && is_one_of(origin, {"first", "last"}));
}

Cell cell_of(sqlite3_stmt* statement, int column, bool nan_column) {
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL:
      return nan_column ? Cell::of_number(std::numeric_limits<double>::quiet_NaN()) : Cell::empty();
    case SQLITE_INTEGER:
      return Cell::of_integer(sqlite3_column_int64(statement, column));
    case SQLITE_FLOAT:
      return Cell::of_number(sqlite3_column_double(statement, column));
    default:
      break;
  }
  const bool blob = sqlite3_column_type(statement, column) == SQLITE_BLOB;
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, column));
  const std::string text(bytes == nullptr ? "" : bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement, column)));
  if (!blob) return Cell::of_text(text);
  std::string hex;
  for (const char c : text) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return Cell::of_text(hex);
}

Error query_error(Database& database, const std::string& denied) {
  if (interrupted) return Error{ErrorKind::failed, "the query was interrupted", ""};
  if (!denied.empty()) {
    return Error{ErrorKind::usage, fmt::format("`moiety sql` only reads: {} is not allowed", denied),
                 "for anything else open a copy of the file with sqlite3"};
  }
  const int code = sqlite3_extended_errcode(database.handle());
  const std::string message = sqlite3_errmsg(database.handle());
  if ((code & 0xFF) != SQLITE_ERROR) return sqlite_error(database.handle(), code, database.path(), "cannot query");
  std::string hint = "views: v_runs v_final v_arms v_claims v_params; their columns: moiety sql \"PRAGMA table_info(v_runs)\"";
  const std::string missing = "no such table: ";
  if (message.compare(0, missing.size(), missing) == 0) {
    std::vector<std::string> names;
    const auto listed = database.each("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')", {},
                                      [&](const Query& row) { names.push_back(row.text(0)); });
    const auto near = listed ? did_you_mean(message.substr(missing.size()), names) : std::string();
    if (!near.empty()) hint = near + " " + hint;
  }
  return Error{ErrorKind::usage, "the query is wrong: " + printable(message), hint};
}

}  // namespace

Status sql_rows(Registry& registry, const std::string& query, Format format, const TextSink& sink) {
  static const std::set<std::string> reading = {"SELECT", "WITH", "VALUES", "EXPLAIN", "PRAGMA"};
  const auto word = first_word(query);
  if (skip_blanks(query) == query.size()) {
    return fail(ErrorKind::usage, "the query is empty", "for example: moiety sql \"SELECT * FROM v_runs\"");
  }
  if (reading.count(word) == 0) {
    return fail(ErrorKind::usage,
                fmt::format("`moiety sql` only reads: {} is not allowed", word.empty() ? "this statement" : word),
                "queries start with SELECT, WITH, VALUES, EXPLAIN or PRAGMA");
  }

  auto database = Database::open(registry.connection().database.path(), Database::Access::read_only);
  if (!database) return pass(database);
  sqlite3* connection = database->handle();
  std::string denied;
  add_sql_functions(connection);
  sqlite3_db_config(connection, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(connection, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_limit(connection, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(connection, SQLITE_LIMIT_LENGTH, 64 << 20);
  sqlite3_set_authorizer(connection, authorize, &denied);
  const InterruptGuard guard;
  sqlite3_progress_handler(
      connection, 10'000, [](void*) { return interrupted ? 1 : 0; }, nullptr);

  sqlite3_stmt* statement = nullptr;
  const char* tail = nullptr;
  if (sqlite3_prepare_v2(connection, query.c_str(), -1, &statement, &tail) != SQLITE_OK) {
    sqlite3_set_authorizer(connection, nullptr, nullptr);
    return tl::unexpected(query_error(*database, denied));
  }
  const std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> owner(statement, sqlite3_finalize);
  if (statement == nullptr || skip_blanks(tail) < std::strlen(tail)) {
    return fail(ErrorKind::usage, "one statement at a time", "run `moiety sql` once a statement");
  }
  if (sqlite3_stmt_readonly(statement) == 0) {
    return fail(ErrorKind::usage, "`moiety sql` only reads: this statement would write",
                "for anything else open a copy of the file with sqlite3");
  }
  const int columns = sqlite3_column_count(statement);
  const bool outer_join = has_outer_join(query);
  std::vector<std::string> header;
  std::vector<bool> nan_columns;
  for (int i = 0; i < columns; ++i) {
    header.emplace_back(sqlite3_column_name(statement, i));
    nan_columns.push_back(!outer_join && null_means_nan(statement, i));
  }
  RowPrinter printer(header, format, sink);
  int code = SQLITE_ROW;
  while (!interrupted && (code = sqlite3_step(statement)) == SQLITE_ROW) {
    std::vector<Cell> row;
    for (int i = 0; i < columns; ++i) row.push_back(cell_of(statement, i, nan_columns[static_cast<std::size_t>(i)]));
    if (!printer.add(std::move(row))) return {};
  }
  if (code == SQLITE_DONE) {
    printer.finish();
    return {};
  }
  printer.give_up();
  sqlite3_set_authorizer(connection, nullptr, nullptr);
  return tl::unexpected(query_error(*database, denied));
}

Result<std::string> sql_text(Registry& registry, const std::string& query, Format format) {
  std::string out;
  const auto status = sql_rows(registry, query, format, [&out](const std::string& text) {
    out += text;
    return true;
  });
  if (!status) return pass(status);
  return out;
}

}  // namespace moiety::registry
