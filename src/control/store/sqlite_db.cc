#include "control/store/sqlite_db.h"

#include <cerrno>
#include <fmt/core.h>
#include <system_error>

namespace pvrdma::control {
namespace {

constexpr int kBusyTimeoutMs = 2000;  // an administrator's sqlite3 shell may read the file at the same time

bool disk_full(int code, int system_errno) {
  if ((code & 0xff) == SQLITE_FULL) return true;
  const bool io = (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN;
  return io && (system_errno == ENOSPC || system_errno == EDQUOT || system_errno == EFBIG);
}

std::string with_errno(std::string text, int system_errno) {
  if (system_errno == 0) return text;
  return fmt::format("{} ({})", text, std::generic_category().message(system_errno));
}

}  // namespace

Result<std::unique_ptr<SqliteDb>> SqliteDb::open(const std::string& path) {
  std::unique_ptr<SqliteDb> opened(new SqliteDb(path));
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int code = sqlite3_open_v2(path.c_str(), &opened->db_, flags, nullptr);
  if (code != SQLITE_OK) return Failure(opened->error(code));
  sqlite3_busy_timeout(opened->db_, kBusyTimeoutMs);
  return opened;
}

SqliteDb::~SqliteDb() {
  sqlite3_close_v2(db_);
}

Result<void> SqliteDb::run(const char* sql) {
  const int code = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return Failure(error(code));
  return {};
}

Result<std::string> SqliteDb::ask(const char* sql) {
  const auto statement = SqliteStatement::prepare(*this, sql);
  if (!statement) return Failure(statement.error());
  const auto row = (*statement)->step();
  if (!row) return Failure(row.error());
  return *row ? (*statement)->column(0) : std::string();
}

Error SqliteDb::error(int code) const {
  const int system_errno = db_ == nullptr ? 0 : sqlite3_system_errno(db_);
  const auto sentence = [&](std::string_view reason) { return fmt::format("store {}: {}", path_, reason); };
  const auto unavailable = [&](std::string_view reason) {
    return Error{0, sentence(reason), ErrorKind::kUnavailable};
  };
  if (disk_full(code, system_errno)) {
    return unavailable("the disk is full or the quota is used up: free some space");
  }
  switch (code & 0xff) {
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return Error{EROFS, sentence("it is read-only: make the file and its folder writable for the daemon")};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Error{EBADMSG,
                   sentence(fmt::format("the file is damaged or no database of SQLite ({}): put a copy back, "
                                        "or move the file away to begin with an empty store",
                                        sqlite3_errstr(code)))};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return unavailable("another program has locked the file: end that program");
    case SQLITE_NOMEM:
      return unavailable("there is not enough memory");
    case SQLITE_CANTOPEN:
      return Error{EACCES, sentence(with_errno("the file cannot be opened: check that its folder exists and "
                                               "that the daemon may write there",
                                               system_errno))};
    case SQLITE_IOERR:
      // After a failed write the change is not in the file. After a failed sync that is uncertain.
      if (code == SQLITE_IOERR_WRITE) {
        return unavailable("the file cannot be written: check the disk's space, quotas and health");
      }
      return Error{EIO,
                   sentence(with_errno(fmt::format("the file cannot be read or written (error {} of SQLite): "
                                                   "check the disk",
                                                   code),
                                       system_errno))};
    default:
      return Error{EIO, sentence(db_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(db_))};
  }
}

Result<std::unique_ptr<SqliteStatement>> SqliteStatement::prepare(SqliteDb& db, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(db.handle(), sql, -1, &statement, nullptr);
  if (code != SQLITE_OK) return Failure(db.error(code));
  return std::unique_ptr<SqliteStatement>(new SqliteStatement(db, statement));
}

void SqliteStatement::bind(int parameter, std::string_view blob) {
  // A null pointer would bind NULL instead of an empty value.
  sqlite3_bind_blob64(statement_, parameter, blob.empty() ? "" : blob.data(), blob.size(), SQLITE_STATIC);
}

void SqliteStatement::bind(int parameter, bool flag) {
  sqlite3_bind_int(statement_, parameter, flag ? 1 : 0);
}

Result<bool> SqliteStatement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return Failure(db_.error(code));
}

std::string SqliteStatement::column(int index) const {
  const void* bytes = sqlite3_column_blob(statement_, index);
  const int size = sqlite3_column_bytes(statement_, index);
  return size == 0 ? std::string()
                   : std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

void SqliteStatement::reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

}  // namespace pvrdma::control
