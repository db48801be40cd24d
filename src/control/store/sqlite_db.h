// SqliteDb and SqliteStatement: a connection to one SQLite file and its prepared statements, with errors as
// sentences that name the file, the reason and the fix.
//
// Errors: kUnavailable (cannot be written now: disk full, locked by another program), EROFS, EBADMSG
// (damaged, or not a database), EACCES, EIO. Thread: one at a time (opened without SQLite's own mutexes).
#pragma once

#include <memory>
#include <optional>
#include <sqlite3.h>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pvrdma::control {

class SqliteDb {
 public:
  // Opens `path`, creating it when missing.
  static Result<std::unique_ptr<SqliteDb>> open(const std::string& path);
  ~SqliteDb();
  SqliteDb(const SqliteDb&) = delete;
  SqliteDb& operator=(const SqliteDb&) = delete;

  // Runs one statement without parameters and ignores its rows.
  Result<void> run(const char* sql);
  // The first column of the first row of a query without parameters; empty if there is no row.
  Result<std::string> ask(const char* sql);

  bool in_transaction() const { return sqlite3_get_autocommit(db_) == 0; }
  int changes() const { return sqlite3_changes(db_); }
  sqlite3* handle() { return db_; }
  Error error(int code) const;  // for the last call, which returned `code`

 private:
  explicit SqliteDb(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  sqlite3* db_ = nullptr;  // owned
};

class SqliteStatement {
 public:
  // `db` is borrowed and outlives the statement.
  static Result<std::unique_ptr<SqliteStatement>> prepare(SqliteDb& db, const char* sql);
  ~SqliteStatement() { sqlite3_finalize(statement_); }
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;

  // Parameters count from 1. The text is borrowed until the next reset().
  void bind(int parameter, std::string_view blob);
  void bind(int parameter, bool flag);

  // Runs to the next row and returns true, or to the end and returns false.
  Result<bool> step();
  std::string column(int index) const;  // from 0
  void reset();

 private:
  SqliteStatement(SqliteDb& db, sqlite3_stmt* statement) : db_(db), statement_(statement) {}

  SqliteDb& db_;             // borrowed
  sqlite3_stmt* statement_;  // owned
};

}  // namespace pvrdma::control
