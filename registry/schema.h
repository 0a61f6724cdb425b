// The schema's versions, and how a file gets from an older one to the current one.
#ifndef MOIETY_REGISTRY_SCHEMA_H_
#define MOIETY_REGISTRY_SCHEMA_H_

#include <string>
#include <vector>

#include "registry/connection.h"

namespace moiety::registry {

/// One step of the schema: brings a file of version `version - 1` to `version`. A step that is released never changes again.
struct Migration {
  int version;
  std::string sql;
};

/// The SQL of version 2.
const char* schema_v2();
/// The SQL of version 3.
const char* schema_v3();
/// The SQL of version 4.
const char* schema_v4();

/// The views that go with the newest tables; to be dropped before a migration and made after it.
std::string drop_views_sql();
std::string create_views_sql();

/// The steps of the tables, version 1 first.
const std::vector<Migration>& migrations();

/// Marks a file as Moiety's (PRAGMA application_id): "Moie".
constexpr int application_id = 0x4D6F6965;

/// What the first 100 bytes of a file say, read without SQLite, which might create or replay a journal beside it.
struct FileHeader {
  bool exists = false, empty = false, sqlite = false;
  int version = 0, application = 0;
  std::string problem;  ///< why it cannot be a registry or cannot be read; then nothing else is known
};
/// Opens regular files only: opening a named pipe would wait for its other end.
FileHeader read_header(const std::string& path);

/// Refuses what must not be touched: a file of a newer Moiety, another program's database, something that is no database.
Status check_header(const FileHeader& header, const std::string& path, int newest);

/// Brings the file to the last of `steps` in one BEGIN IMMEDIATE transaction, with the version read again inside it: of several
/// processes one migrates, the others find it done. An older file that has content is first copied to `<path>.v<old>.backup`.
/// Lines for the user are appended to `notices`.
Status migrate(Database& database, const std::vector<Migration>& steps, std::vector<std::string>& notices);

}  // namespace moiety::registry

#endif  // MOIETY_REGISTRY_SCHEMA_H_
