// The embedded store: one SQLite file (WAL, synced at each commit), opened by one daemon at a time.
//
//   records(key BLOB PRIMARY KEY, value BLOB, leased INTEGER)   application_id "PVRD", user_version 1
//   PATH.lock is locked (flock) from start() to stop(): the kernel releases it when the process dies.
//
// Leased records found at start belong to a dead process. They are deleted at once, or, if the disk is too
// full, by the first transaction that succeeds. Until then they are hidden.
//
// After a failed transaction the store counts as disconnected. Its own thread then tries twice a second to
// write, and reports when that works again; it does not touch a damaged file. Meanwhile reading works, and
// commit() may be called. The observer is called from that thread and from inside start() and commit() (see
// observer_queue.h).
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <fcntl.h>
#include <fmt/core.h>
#include <mutex>
#include <sys/file.h>
#include <thread>

#include "base/control_thread.h"
#include "base/fd.h"
#include "control/store/observer_queue.h"
#include "control/store/sqlite_db.h"
#include "control/store/store.h"

namespace pvrdma::control {
namespace {

constexpr const char* kApplicationId = "1347834436";  // "PVRD"
constexpr const char* kSchemaVersion = "1";
constexpr std::chrono::milliseconds kRetry{500};

class SqliteStore final : public Store {
 public:
  explicit SqliteStore(std::string path) : path_(std::move(path)) {}
  ~SqliteStore() override { stop(LeasedRecords::kGiveBack); }

  std::string description() const override { return "sqlite:" + path_; }
  std::chrono::seconds lease() const override { return std::chrono::seconds(0); }
  Result<void> start(StoreObserver& observer) override;
  void stop(LeasedRecords records) override;
  Result<Commit> commit(const Transaction& transaction) override;
  Result<std::vector<KeyValue>> read_all() override;

 private:
  struct Open {
    Fd lock;
    std::unique_ptr<SqliteDb> db;
    std::unique_ptr<SqliteStatement> get, put, remove, remove_leased, list;
  };

  Result<Fd> take_lock() const;
  Result<std::unique_ptr<Open>> open() const;
  Result<void> prepare_schema(SqliteDb& db) const;
  Result<std::vector<KeyValue>> list();
  Result<void> remove_leftovers();
  Result<bool> holds(const Expectation& expectation);
  Result<bool> apply(const Change& change);  // false: no change was needed
  Result<void> begin();
  Result<void> end();
  Result<Commit> attempt(const Transaction& transaction, std::vector<Change>& applied);
  Result<void> attempt_nothing();
  void tell(const Result<void>& written);
  Failure not_open() const;
  void run();

  const std::string path_;
  ObserverQueue queue_;
  std::mutex mutex_;            // guards the following members; gives the queue the order of the commits
  std::unique_ptr<Open> open_;  // null: not started, or stopped
  bool told_ = false;           // written_ was reported at least once
  Result<void> written_;        // the result of the last transaction
  bool leftovers_ = false;      // a dead process's leased records are still in the file
  bool stopping_ = false;
  std::condition_variable changed_;  // signals written_ and stopping_
  std::thread thread_;               // runs between start() and stop(); tries again after a failure
};

Result<Fd> SqliteStore::take_lock() const {
  const std::string lock_path = path_ + ".lock";
  Fd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640));
  if (!lock) {
    return fail_errno(errno, fmt::format("store {}: its lock file {} cannot be opened: check that the folder "
                                         "exists and that the daemon may write there",
                                         path_, lock_path));
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK)
    return fail_errno(errno, fmt::format("store {}: cannot lock {}", path_, lock_path));
  return fail(EADDRINUSE, fmt::format("store {}: another running daemon uses it: stop that daemon or choose "
                                      "another path",
                                      path_));
}

Result<void> SqliteStore::prepare_schema(SqliteDb& db) const {
  const auto application = db.ask("PRAGMA application_id");
  if (!application) return Failure(application.error());
  const auto version = db.ask("PRAGMA user_version");
  if (!version) return Failure(version.error());
  const auto tables = db.ask("SELECT count(*) FROM sqlite_master");
  if (!tables) return Failure(tables.error());
  if (*tables != "0") {
    if (*application != kApplicationId) {
      return fail(
          EBADMSG,
          fmt::format("store {}: the file is another program's database: choose another path", path_));
    }
    if (*version != kSchemaVersion) {
      return fail(EBADMSG,
                  fmt::format("store {}: its format is version {}, this daemon knows version {}: use "
                              "the daemon that wrote it",
                              path_, *version, kSchemaVersion));
    }
  }
  // A committed change survives a power loss only because each commit syncs. WAL alone syncs at checkpoints.
  const auto mode = db.ask("PRAGMA journal_mode=WAL");
  if (!mode) return Failure(mode.error());
  if (*mode != "wal") {
    return fail(ENOTSUP, fmt::format("store {}: its file system does not support SQLite's write-ahead log: "
                                     "choose a path on a local disk",
                                     path_));
  }
  if (auto done = db.run("PRAGMA synchronous=FULL"); !done) return done;
  if (*tables == "0") {
    return db.run(
        fmt::format("BEGIN IMMEDIATE; CREATE TABLE records(key BLOB PRIMARY KEY NOT NULL, value BLOB NOT "
                    "NULL, leased INTEGER NOT NULL) WITHOUT ROWID; PRAGMA application_id={}; PRAGMA "
                    "user_version={}; COMMIT",
                    kApplicationId, kSchemaVersion)
            .c_str());
  }
  const auto check = db.ask("PRAGMA quick_check(1)");
  if (!check) return Failure(check.error());
  if (*check != "ok") {
    return fail(EBADMSG,
                fmt::format("store {}: the file is damaged ({}): put a copy back, or move the file away "
                            "to begin with an empty store",
                            path_, *check));
  }
  return {};
}

Result<std::unique_ptr<SqliteStore::Open>> SqliteStore::open() const {
  auto made = std::make_unique<Open>();
  auto lock = take_lock();
  if (!lock) return Failure(lock.error());
  made->lock = std::move(*lock);
  auto db = SqliteDb::open(path_);
  if (!db) return Failure(db.error());
  made->db = std::move(*db);
  if (auto ready = prepare_schema(*made->db); !ready) return Failure(ready.error());
  const auto prepare = [&](std::unique_ptr<SqliteStatement>& statement, const char* sql) -> Result<void> {
    auto prepared = SqliteStatement::prepare(*made->db, sql);
    if (!prepared) return Failure(prepared.error());
    statement = std::move(*prepared);
    return {};
  };
  const std::pair<std::unique_ptr<SqliteStatement>*, const char*> statements[] = {
      {&made->get, "SELECT value FROM records WHERE key = ?1"},
      {&made->put,
       "INSERT INTO records VALUES(?1, ?2, ?3) ON CONFLICT(key) DO UPDATE SET value = ?2, leased = ?3"},
      {&made->remove, "DELETE FROM records WHERE key = ?1"},
      {&made->remove_leased, "DELETE FROM records WHERE leased"},
      {&made->list, "SELECT key, value FROM records WHERE NOT (leased AND ?1) ORDER BY key"},
  };
  for (const auto& [statement, sql] : statements) {
    if (auto done = prepare(*statement, sql); !done) return Failure(done.error());
  }
  return made;
}

Result<void> SqliteStore::start(StoreObserver& observer) {
  {
    const std::scoped_lock lock(mutex_);
    auto opened = open();
    if (!opened) return Failure(opened.error());
    open_ = std::move(*opened);
    leftovers_ = true;
    const Result<void> removed = remove_leftovers();
    // A full disk does not prevent the start: everything can be read, and space may become free.
    if (removed) {
      leftovers_ = false;
    } else if (removed.error().kind != ErrorKind::kUnavailable) {
      open_.reset();
      return Failure(removed.error());
    }
    auto records = list();
    if (!records) {
      open_.reset();
      return Failure(records.error());
    }
    queue_.open(observer);
    queue_.post([all = std::move(*records)](StoreObserver& to) mutable { to.on_all(std::move(all)); });
    tell(removed);
    thread_ = std::thread([this] { run(); });
  }
  queue_.deliver();
  return {};
}

// Leased records that are left can be seen only by the next start, which removes them.
void SqliteStore::stop(LeasedRecords /*records*/) {
  queue_.close();
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  const std::scoped_lock lock(mutex_);
  if (!open_) return;
  (void)remove_leftovers();  // if it fails, the next start does it
  open_.reset();
}

Result<void> SqliteStore::remove_leftovers() {
  const auto done = open_->remove_leased->step();
  open_->remove_leased->reset();
  if (!done) return Failure(done.error());
  return {};
}

Result<bool> SqliteStore::holds(const Expectation& expectation) {
  open_->get->bind(1, expectation.key);
  const auto row = open_->get->step();
  const bool same = row && (*row ? expectation.value == open_->get->column(0) : !expectation.value);
  open_->get->reset();
  if (!row) return Failure(row.error());
  return same;
}

Result<bool> SqliteStore::apply(const Change& change) {
  SqliteStatement& statement = change.value ? *open_->put : *open_->remove;
  statement.bind(1, change.key);
  if (change.value) {
    statement.bind(2, *change.value);
    statement.bind(3, change.leased);
  }
  const auto done = statement.step();
  statement.reset();
  if (!done) return Failure(done.error());
  return open_->db->changes() > 0;
}

Result<void> SqliteStore::begin() {
  if (auto begun = open_->db->run("BEGIN IMMEDIATE"); !begun) return begun;
  return leftovers_ ? remove_leftovers() : Result<void>();
}

Result<void> SqliteStore::end() {
  if (auto committed = open_->db->run("COMMIT"); !committed) return committed;
  leftovers_ = false;
  return {};
}

Result<Commit> SqliteStore::attempt(const Transaction& transaction, std::vector<Change>& applied) {
  const auto failed = [this](Error error, std::string_view outcome) {
    tell(Failure(error));
    error.message += outcome;
    return Failure(std::move(error));
  };
  constexpr std::string_view kUnchanged = "; nothing was changed";
  if (auto begun = begin(); !begun) return failed(begun.error(), kUnchanged);
  for (const Expectation& expectation : transaction.expects) {
    const auto same = holds(expectation);
    if (!same) return failed(same.error(), kUnchanged);
    if (!*same) return Commit::kConflict;
  }
  for (const Change& change : transaction.changes) {
    const auto changed = apply(change);
    if (!changed) return failed(changed.error(), kUnchanged);
    if (*changed) applied.push_back(change);
  }
  if (auto ended = end(); !ended) {
    // A record that was written but not synced may be complete after a crash.
    const bool in_doubt = ended.error().code == EIO;
    return failed(ended.error(), in_doubt ? "; the change may or may not have been made" : kUnchanged);
  }
  tell({});
  return Commit::kCommitted;
}

Result<void> SqliteStore::attempt_nothing() {
  if (auto begun = begin(); !begun) return begun;
  // Writes the file's first page unchanged: SQLite does not check whether the value is new.
  const auto written = open_->db->run(fmt::format("PRAGMA user_version={}", kSchemaVersion).c_str());
  if (!written) return Failure(written.error());
  return end();
}

Result<Commit> SqliteStore::commit(const Transaction& transaction) {
  Result<Commit> result = not_open();
  {
    const std::scoped_lock lock(mutex_);
    if (!open_) return result;
    std::vector<Change> applied;
    result = attempt(transaction, applied);
    if (open_->db->in_transaction()) (void)open_->db->run("ROLLBACK");
    if (result == Commit::kCommitted && !applied.empty())
      queue_.post(
          [changes = std::move(applied)](StoreObserver& to) mutable { to.on_changes(std::move(changes)); });
  }
  queue_.deliver();
  return result;
}

void SqliteStore::run() {
  begin_control_thread("store");
  const auto may_heal = [this] { return !written_ && written_.error().code != EBADMSG; };
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    changed_.wait(lock, [&] { return stopping_ || may_heal(); });
    changed_.wait_for(lock, kRetry, [&] { return stopping_ || !may_heal(); });
    if (stopping_ || !may_heal()) continue;
    tell(attempt_nothing());
    if (open_->db->in_transaction()) (void)open_->db->run("ROLLBACK");
    lock.unlock();
    queue_.deliver();
    lock.lock();
  }
}

Result<std::vector<KeyValue>> SqliteStore::read_all() {
  const std::scoped_lock lock(mutex_);
  if (!open_) return not_open();
  return list();
}

Result<std::vector<KeyValue>> SqliteStore::list() {
  std::vector<KeyValue> records;
  SqliteStatement& statement = *open_->list;
  statement.bind(1, leftovers_);
  Result<bool> row = statement.step();
  for (; row && *row; row = statement.step()) records.push_back({statement.column(0), statement.column(1)});
  statement.reset();
  if (!row) return Failure(row.error());
  return records;
}

void SqliteStore::tell(const Result<void>& written) {
  const auto why = [](const Result<void>& result) { return result ? std::string() : result.error().message; };
  const bool news = !told_ || why(written) != why(written_);
  told_ = true;
  written_ = written;
  if (!news) return;
  changed_.notify_all();
  queue_.post([connected = written.has_value(), text = why(written)](StoreObserver& to) {
    to.on_connection(connected, text);
  });
}

Failure SqliteStore::not_open() const {
  return fail(ENOTCONN, fmt::format("store {}: it is not open; nothing was changed", path_));
}

}  // namespace

std::unique_ptr<Store> make_sqlite_store(const SqliteConfig& config) {
  return std::make_unique<SqliteStore>(config.path);
}

}  // namespace pvrdma::control
