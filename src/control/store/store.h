// Store: where the cluster's records live: keys and values, changed by transactions, watched by everybody.
// Two kinds: embedded (SQLite, one host) and etcd (several hosts).
//
// What commit() has answered with kCommitted survives kill -9 and power loss. Leased records belong to this
// process: they vanish some seconds after it dies or loses the store (etcd), or at its next start (SQLite).
//
// Thread: commit() and read() any thread, blocking for a bounded time. Observer's functions are called from
// threads of the store's own or from inside commit(), one at a time, never after stop() has returned.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace pvrdma::control {

// What becomes of this process's leased records when it stops: they end, or stay until their lease ends, for
// its next life to put them again.
enum class LeasedRecords : std::uint8_t { kGiveBack, kLeave };

struct KeyValue {
  std::string key;
  std::string value;
  friend bool operator==(const KeyValue&, const KeyValue&) = default;
};

struct Change {
  std::string key;
  std::optional<std::string> value;  // none: the key is deleted
  bool leased = false;               // of a put
  friend bool operator==(const Change&, const Change&) = default;
};

struct Expectation {
  std::string key;
  std::optional<std::string> value;  // none: the key is absent
};

struct Transaction {
  std::vector<Expectation> expects;
  std::vector<Change> changes;
};

enum class Commit : std::uint8_t {
  kCommitted,
  kConflict,  // an expectation did not hold; nothing was changed
};

class Observer {
 public:
  virtual ~Observer() = default;
  // All there is, and it replaces everything: at the start, and when watching was interrupted for too long.
  virtual void on_all(std::vector<KeyValue> records) = 0;
  // One transaction's changes, in the order of the store.
  virtual void on_changes(std::vector<Change> changes) = 0;
  // The store can be changed again, or not, with a sentence that says why; told again when the reason is
  // another one. At first it cannot. The store finds out by itself when it can again: nobody has to try.
  virtual void on_connection(bool connected, std::string why) = 0;
  // This process's leased records are gone or about to go: put them again.
  virtual void on_lease_lost() = 0;
};

// Of a store that keeps old revisions.
struct StoreHealth {
  std::uint64_t revision = 0;
  std::uint64_t size_bytes = 0;  // of its file
  std::uint64_t used_bytes = 0;
  std::string alarms;  // for which it refuses changes, one clause; empty: none
};

class Store {
 public:
  virtual ~Store() = default;  // stops

  // What people call it: "sqlite:/var/lib/pvrdma/store.db", "etcd:http://10.0.0.1:2379".
  virtual std::string description() const = 0;

  // How long the leased records of a process that died may stay while nobody starts. Zero: its next start
  // removes them.
  virtual std::chrono::seconds lease() const = 0;

  // Begins to call the observer (borrowed until stop()). Once. Error: what waiting does not heal (a file that
  // cannot be opened, an unreadable certificate). A store that is away is no error: on_connection() tells.
  virtual Result<void> start(Observer& observer) = 0;

  // Ends; with the records as far as the store is reachable.
  virtual void stop(LeasedRecords records) = 0;

  // Error: the store is not reachable, not writable or did not answer in time; the change may or may not have
  // been made then, and the sentence says so. Code EAGAIN: it may help to try again later.
  virtual Result<Commit> commit(const Transaction& transaction) = 0;

  virtual Result<std::vector<KeyValue>> read_all() = 0;

  // None: it keeps no old revisions. Blocks as commit(), as the next does.
  virtual Result<std::optional<StoreHealth>> health() { return std::optional<StoreHealth>(); }
  // Somebody else sees to it that old revisions go.
  virtual bool forgets_by_itself() const { return true; }
  // Revisions before that one are not needed any more. Done already is no error.
  virtual Result<void> forget_before(std::uint64_t /*revision*/) { return {}; }
};

struct SqliteConfig {
  std::string path = "/var/lib/pvrdma/store.db";
};

struct EtcdConfig {
  std::vector<std::string> endpoints;  // "https://10.0.0.1:2379", tried in turn
  std::string prefix = "/pvrdma/v1/";
  std::string user;  // empty: none
  std::string password;
  std::string ca_file;  // empty: the system's
  std::string cert_file;
  std::string key_file;
  std::uint32_t lease_seconds = 10;
  bool compact = true;  // false: etcd does it (--auto-compaction-retention), or another of its users
};

std::unique_ptr<Store> make_sqlite_store(const SqliteConfig& config);
std::unique_ptr<Store> make_etcd_store(const EtcdConfig& config);

}  // namespace pvrdma::control
